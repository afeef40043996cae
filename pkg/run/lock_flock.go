//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package run

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile locks an open file by flock(2), without waiting. The lock ends with Close, or with the process. Child processes do not
// inherit it, because Go opens files close-on-exec.
func lockFile(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOLCK):
			return fmt.Errorf("%w: the file system of %s says %w", errNoLocks, f.Name(), err)
		default:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}
