// nvidia-modprobe as far as tests need it: notes that it was run, and makes the node that `-c0 -u` asks for (a link to
// /dev/null, which makes it a device to whoever looks). Does what a file beside the driver says instead, when there is
// one.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int exists(const char* path) {
  struct stat info;
  return stat(path, &info) == 0;
}

int main(int argc, char** argv) {
  const int runs = open("/runs", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (runs < 0 || write(runs, ".", 1) != 1) return 9;
  close(runs);
  if (argc != 3 || strcmp(argv[1], "-c0") != 0 || strcmp(argv[2], "-u") != 0) return 8;
  if (exists("/hang")) {
    while (1) pause();
  }
  if (exists("/useless")) return 0;
  if (exists("/fails")) return 1;
  return symlink("/dev/null", "/dev/nvidia-uvm") == 0 ? 0 : 7;
}
