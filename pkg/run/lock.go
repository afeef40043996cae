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

// lock is an open file that the operating system has locked for this process. The system takes the lock back when the
// process ends in whatever way, so a killed one leaves nothing to clean up. The file itself stays: were it removed, two
// processes could each lock a file of that name.
type lock struct{ file *os.File }

var (
	errLocked  = errors.New("another process holds the lock")
	errNoLocks = errors.New("locks are not to be had here") // of the system, or of the file system
)

// poll is how often a lock that is held elsewhere is tried again. A call that waits inside the system could not be interrupted.
const poll = 100 * time.Millisecond

// tryLock locks the file at path, made if missing, and writes this process's id into it. errLocked where it is held, with the
// id of the holder, 0 where that is not known.
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
		// The folder may have been removed since the file was opened (Remove): then this lock keeps nobody out.
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
	// Emptied, so that who waits for the next holder is not told this one's id.
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

// lock takes the stage's lock and waits, saying so once, while another process holds it. Where there are no locks it says that
// and returns nil.
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

// Remove deletes the folder with all that is in it. While another process is at work on one of its stages it does nothing
// and says which.
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
