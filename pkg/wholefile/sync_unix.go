//go:build !windows

package wholefile

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder flushes an open folder. Some file systems cannot, and say so: a rename is then as durable as they make it.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
