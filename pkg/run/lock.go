package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lock is an open file that the operating system has locked for this process. The system releases the lock when the process
// ends, however it ends. So a killed process leaves nothing to clean up. The file stays. If one process removed it, two others
// could each lock a file of its name.
type lock struct{ file *os.File }

var (
	errLocked  = errors.New("another process holds the lock")
	errNoLocks = errors.New("locks are not supported here") // by the system, or by the file system
)

// poll is the time between two attempts at a lock that another process holds. The system could wait for the lock instead, but
// nothing could interrupt it then.
const poll = 100 * time.Millisecond

// tryLock locks the file at path and writes this process's id into it. It makes the file if there is none. If another process
// holds the lock, the error is errLocked, and holder is that process's id, or 0 if it is not known.
func tryLock(path string) (l *lock, holder int, err error) {
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, 0, err
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, 0, err
		}
		if err := lockFile(f); err != nil {
			if errors.Is(err, errLocked) {
				holder = readHolder(f)
			}
			return nil, holder, errors.Join(err, f.Close())
		}
		// Remove may have deleted the folder since the file was opened. Others would then lock another file of this name.
		mine, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(path); err != nil || !os.SameFile(mine, there) {
			if err := f.Close(); err != nil {
				return nil, 0, err
			}
			continue
		}
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		return &lock{f}, 0, nil
	}
}

// release gives the lock back.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	// Empty the file, so that nobody takes this process for the next holder.
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

func readHolder(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0) // short files end with io.EOF
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

func process(pid int) string {
	if pid == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// lock takes the stage's lock. While another process holds it, lock waits, and logs that once. If locks are not supported, lock
// logs that and returns nil.
func (f Folder) lock(ctx context.Context, stage string) (*lock, error) {
	said := false
	for {
		l, holder, err := tryLock(f.lockPath(stage))
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errNoLocks):
			f.logf("%s: %v: let no second process work in %s\n", stage, err, f.Dir)
			return nil, nil
		case !errors.Is(err, errLocked):
			return nil, fmt.Errorf("%s: %s cannot be written to (%w): name another with --out or --data", stage, f.Dir, err)
		}
		if !said {
			f.logf("%s: %s is at work on it, waiting for its end\n", stage, process(holder))
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: waiting for %s: %w", stage, process(holder), context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// Remove deletes the folder with all that is in it. If another process is working on one of its stages, Remove deletes nothing,
// and the error names the stage.
func (f Folder) Remove() error {
	entries, err := os.ReadDir(f.Path(stagesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		stage, ok := strings.CutSuffix(e.Name(), lockMark)
		if !ok {
			continue
		}
		l, holder, err := tryLock(f.Path(stagesFolder, e.Name()))
		switch {
		case errors.Is(err, errLocked):
			return fmt.Errorf("%s: %s is at work on %s: wait for it or end it", f.Dir, process(holder), stage)
		case errors.Is(err, errNoLocks):
		case err != nil:
			return err
		default:
			defer l.file.Close() // held until all is removed
		}
	}
	return os.RemoveAll(f.Dir)
}
