// Whether a process on a card is under the guard of one of its owner's claims, as far as that shows from outside.
//
// Two things have to be so: the guard's library is mapped into the process, which the kernel says, and a slot of the
// claim's ledger (`usage`) names the process. A library that was cleared from the environment, a static program, a
// driver that was opened in a namespace of its own (dlmopen) or called through its device nodes have no slot; a program
// that took the place of a guarded one with exec has the slot of the one before, and no library.
//
// Both can be made up by a tenant that sets out to. Then it is not found by this, and its claim has the one slack of
// those that are guarded (supervise.h); its memory and its time are judged by the vendor's account all the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/supervise.h"
#include "guard/files.h"

namespace heddle::agent {

enum class Guarding {
  kYes,
  kNo,
  kUnknown,  // it is just ending, or a ledger cannot be read here: of a newer version, or for a reason that is ours
};

// For one look at the cards: each ledger is read once at the most, when somebody asks about it. Thread rule: one
// thread. Cost: the read of a ledger (2.7 MB), and of the process's maps.
class GuardWitness {
 public:
  explicit GuardWitness(std::string proc) : proc_(std::move(proc)) {}

  // ledgers: the usage files of the claims that are the process's.
  Guarding look(const ProcessIdentity& process, const std::vector<std::string>& ledgers);

 private:
  struct Ledger {
    bool readable = false;
    std::vector<guard::SlotOwner> owners;
  };
  const Ledger& ledger(const std::string& path);

  const std::string proc_;
  std::map<std::string, Ledger> read_;
};

}  // namespace heddle::agent
