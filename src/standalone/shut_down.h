// How `heddle down` treats jobs that are not finished.
#pragma once

namespace heddle::standalone {

enum class ShutDown { kIfIdle, kEndJobs };

}  // namespace heddle::standalone
