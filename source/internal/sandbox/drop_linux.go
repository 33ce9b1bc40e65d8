package sandbox

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// drop gives up what a renderer has no use for: growing beyond its limits, writing files, opening files, connecting.
// Each of these stands behind a limit that is kept elsewhere too, so a system that lacks one is no error.
func drop(memory int64, cpu time.Duration) {
	setLimit(unix.RLIMIT_CORE, 0)
	setLimit(unix.RLIMIT_FSIZE, 0)
	setLimit(unix.RLIMIT_CPU, uint64(cpu/time.Second))
	if have := addressSpace(); have > 0 && !raceDetector {
		// Go reserves more than it uses. This is for an allocation that is too large to be seen growing.
		setLimit(unix.RLIMIT_AS, have+2*uint64(memory)+512<<20)
	}
	// The system takes this process first where memory is short, and runs it after the agent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 5)
	confine()
}

func setLimit(resource int, value uint64) {
	_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value})
}

// forbidden are the system calls by which a process gets at what is outside of it. What is open stays so.
var forbidden = append(forbiddenHere,
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_MKDIRAT,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_IO_URING_SETUP,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KEYCTL, unix.SYS_BPF)

// confine has the kernel refuse the forbidden system calls, to all threads.
func confine() {
	if auditArch == 0 {
		return
	}
	runtime.LockOSThread() // until the filter is on all threads
	defer runtime.UnlockOSThread()
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return
	}
	filter := seccompFilter()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, _ = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
}

// seccompFilter returns a program that answers each forbidden system call with EPERM, and each one of another
// architecture too, as its numbers mean something else.
func seccompFilter() []unix.SockFilter {
	const load, jumpEqual, jumpAtLeast, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const offsetNumber, offsetArch, otherABI = 0, 4, 0x40000000
	n := uint8(len(forbidden))
	filter := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: jumpEqual, K: auditArch, Jf: n + 3},
		{Code: load, K: offsetNumber},
		{Code: jumpAtLeast, K: otherABI, Jt: n + 1},
	}
	for i, number := range forbidden {
		filter = append(filter, unix.SockFilter{Code: jumpEqual, K: uint32(number), Jt: n - uint8(i)})
	}
	return append(filter,
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
}

// addressSpace returns how much of it this process has, 0 if that is not known.
func addressSpace() uint64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _, _ := bytes.Cut(statm, []byte(" "))
	n, err := strconv.ParseUint(string(pages), 10, 64)
	if err != nil {
		return 0
	}
	return n * uint64(os.Getpagesize())
}
