"""Counts changes below some folders as they happen, so that a test can act at the n-th of them."""
import ctypes
import os
import select
import struct
import threading

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE, _MOVED_TO, _MOVED_FROM, _DELETE, _CLOSE_WRITE, _IS_DIR = 0x100, 0x80, 0x40, 0x200, 0x8, 0x40000000
_MASK = _CREATE | _MOVED_TO | _MOVED_FROM | _DELETE | _CLOSE_WRITE


class Changes:
    """on_change(number, what) is called on a thread of its own for each change below the folders, new sub-folders included."""

    def __init__(self, folders, on_change):
        self.fd = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.paths, self.on_change, self.count = {}, on_change, 0
        self.stop = threading.Event()
        for folder in folders:
            for parent, _, _ in os.walk(folder):
                self._watch(parent)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _watch(self, folder):
        number = _LIBC.inotify_add_watch(self.fd, os.fsencode(folder), _MASK)
        if number >= 0:
            self.paths[number] = folder

    def _run(self):
        while not self.stop.is_set():
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            data, offset = os.read(self.fd, 65536), 0
            while offset < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, offset)
                name = data[offset + 16:offset + 16 + length].rstrip(b"\0").decode()
                offset += 16 + length
                path = os.path.join(self.paths.get(number, ""), name)
                if mask & _IS_DIR and mask & (_CREATE | _MOVED_TO):
                    self._watch(path)
                self.count += 1
                self.on_change(self.count, path)

    def close(self):
        self.stop.set()
        self.thread.join()
        os.close(self.fd)
