//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package run

import (
	"fmt"
	"os"
	"runtime"
)

// lockFile locks nothing: the standard library has no flock(2) for this system. Stages work as elsewhere, but the user has to make
// sure that only one process works in a folder at a time. The log says so at each stage that runs.
func lockFile(*os.File) error {
	return fmt.Errorf("%w: not supported on %s", errNoLocks, runtime.GOOS)
}
