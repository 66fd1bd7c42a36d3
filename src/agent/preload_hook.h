// The OCI hook that lets an image keep its own /etc/ld.so.preload: runs in the mount namespace of a container that is
// being created, before its root becomes "/". The guard's file is mounted over the image's by then; where the image has
// one of its own, both are merged, the guard first.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle::agent {

// The guard's entries, then the image's without those that are the guard's, one a line.
std::string merge_preload(std::string_view guard, std::string_view image);

// "root.path" of the bundle's config.json, absolute.
Result<std::string> rootfs_of_bundle(const std::string& bundle);
// "bundle" and "id" of the OCI state that a hook reads on standard input.
struct ContainerState {
  std::string id;
  std::string bundle;
};
Result<ContainerState> parse_state(std::string_view json);

// The image's own file below the mount that hides it; empty when it has none. Follows links only inside the root.
Result<std::string> image_preload(const std::string& rootfs);

// Mounts `file` read-only over /etc/ld.so.preload of the root.
Result<void> mount_preload(const std::string& rootfs, const std::string& file);

// All of it. preload_file: the guard's text; work_dir: where the merged text may be written.
Result<void> run_preload_hook(std::string_view state_json, const std::string& preload_file,
                              const std::string& work_dir);

}  // namespace heddle::agent
