//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package run

import (
	"fmt"
	"os"
	"runtime"
)

// lockFile locks nothing: the standard library has no flock(2) for this system. Stages work as elsewhere, but it is for the user
// to see that no two processes work in one folder at a time, which the log says at each stage that runs.
func lockFile(*os.File) error {
	return fmt.Errorf("%w: not supported on %s", errNoLocks, runtime.GOOS)
}
