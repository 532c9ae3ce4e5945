#include "cli/lab/node_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/placement.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr unsigned long kNoDevices = MS_NOSUID | MS_NODEV;
constexpr int kNodeNamespaces = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS;

absl::Status Mount(const char* source, const char* target, const char* type, unsigned long flags) {
  if (mount(source, target, type, flags, nullptr) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, absl::StrCat("mount ", type != nullptr ? type : source, " on ", target));
}

absl::Status MountProc() { return Mount("proc", "/proc", "proc", kNoDevices | MS_NOEXEC); }
absl::Status MountSys() { return Mount("sysfs", "/sys", "sysfs", kNoDevices | MS_NOEXEC); }
absl::Status MountShm() { return Mount("tmpfs", "/dev/shm", "tmpfs", kNoDevices); }

absl::StatusOr<std::string> PathOf(int fd) {
  std::string path(4096, '\0');
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  if (length < 0) return absl::ErrnoToStatus(errno, link);
  path.resize(static_cast<size_t>(length));
  return path;
}

absl::Status ChangeRoot(const std::string& root) {
  if (root == "/") return absl::OkStatus();
  if (chroot(root.c_str()) != 0 || chdir("/") != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("chroot to ", root));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> OpenNamespace(const char* kind) {
  const std::string path = absl::StrCat("/proc/self/ns/", kind);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  return fd;
}

// Puts a file with `content` in place of `target`, for this mount namespace alone. The file lies in
// the lab's own /dev/shm, which the node then covers.
absl::Status ReplaceFile(const std::string& target, const std::string& scratch_name,
                         const std::string& content) {
  const std::string scratch = "/dev/shm/" + scratch_name;
  if (!(std::ofstream(scratch) << content).flush()) {
    return absl::InternalError("cannot write " + scratch);
  }
  return Mount(scratch.c_str(), target.c_str(), nullptr, MS_BIND);
}

// UCX, gloo and others take two processes with one boot id for processes of one host.
std::string RandomBootId() {
  std::string digits = RandomToken();
  for (const size_t dash : {8, 13, 18, 23}) digits.insert(dash, "-");
  return digits + "\n";
}

std::string HostsFile(int nodes) {
  std::ostringstream text;
  text << "127.0.0.1 localhost\n::1 localhost ip6-localhost\n";
  for (int node = 0; node < nodes; ++node) {
    text << NodeAddress(node) << " " << NodeName(node) << "\n";
  }
  return text.str();
}

// Inside the new namespaces of a node.
absl::Status FurnishNode(int node, int nodes, const LinkOptions& link, int bridge_namespace) {
  const std::string name = NodeName(node);
  if (sethostname(name.data(), name.size()) != 0) return absl::ErrnoToStatus(errno, "sethostname");
  STRATA_RETURN_IF_ERROR(MakeNodeLink(node, link, bridge_namespace));
  STRATA_RETURN_IF_ERROR(
      ReplaceFile("/proc/sys/kernel/random/boot_id", name + ".boot_id", RandomBootId()));
  // A system without the file stays without it: making one would outlive us.
  if (access("/etc/hosts", F_OK) == 0) {
    STRATA_RETURN_IF_ERROR(ReplaceFile("/etc/hosts", name + ".hosts", HostsFile(nodes)));
  }
  STRATA_RETURN_IF_ERROR(MountSys());
  return MountShm();
}

}  // namespace

absl::StatusOr<NodeNamespace> NodeNamespace::Current(const std::string& root) {
  NodeNamespace current;
  current.root_ = root;
  STRATA_ASSIGN_OR_RETURN(current.network_, OpenNamespace("net"));
  STRATA_ASSIGN_OR_RETURN(current.uts_, OpenNamespace("uts"));
  STRATA_ASSIGN_OR_RETURN(current.ipc_, OpenNamespace("ipc"));
  STRATA_ASSIGN_OR_RETURN(current.mount_, OpenNamespace("mnt"));
  return current;
}

absl::Status NodeNamespace::Enter() const {
  for (const int fd : {network_, uts_, ipc_, mount_}) {
    if (setns(fd, 0) != 0) return absl::ErrnoToStatus(errno, "setns");
  }
  return ChangeRoot(root_);
}

absl::StatusOr<NodeNamespace> NodeNamespace::Make(int node, int nodes, const LinkOptions& link,
                                                  const NodeNamespace& lab) {
  if (unshare(kNodeNamespaces) != 0) return absl::ErrnoToStatus(errno, "unshare");
  const absl::Status furnished = FurnishNode(node, nodes, link, lab.network());
  absl::StatusOr<NodeNamespace> made = Current(lab.root_);
  STRATA_RETURN_IF_ERROR(lab.Enter());
  if (!furnished.ok()) return Annotate(furnished, NodeName(node));
  return made;
}

absl::StatusOr<std::string> PrepareLabMounts() {
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  // Entering the mount namespace that we are in moves us to its root, out of a chroot, whose own
  // root need not be a mount and could not be made private.
  if (root < 0 || self < 0 || setns(self, CLONE_NEWNS) != 0) {
    return absl::ErrnoToStatus(errno, "go to the root of the mounts");
  }
  close(self);
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "make mounts private");
  }
  STRATA_RETURN_IF_ERROR(MountProc());
  STRATA_ASSIGN_OR_RETURN(const std::string root_path, PathOf(root));
  close(root);
  if (root_path != "/") {
    STRATA_RETURN_IF_ERROR(ChangeRoot(root_path));
    STRATA_RETURN_IF_ERROR(MountProc());
  }
  STRATA_RETURN_IF_ERROR(MountSys());
  STRATA_RETURN_IF_ERROR(MountShm());
  return root_path;
}

}  // namespace strata
