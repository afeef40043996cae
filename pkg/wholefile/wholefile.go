// Package wholefile writes files atomically, and is the project's only writer that does. Whatever happens to the process or the
// machine, a reader sees the old file or the new one, and never a part. If two processes write the same file, the last one to
// finish wins.
package wholefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Prefix begins the names of unfinished files. A killed process leaves such files behind, and Sweep removes them.
const Prefix = ".tmp-"

// Write writes b as the file at path, readable by all. Missing folders are made.
func Write(path string, b []byte) error {
	return Stream(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Stream writes the file at path. Its content is what write puts into w, which is buffered. Missing folders are made. If write
// fails, the file at path stays as it was.
func Stream(path string, write func(w io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, Prefix+"*")
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(f, 64<<10)
	if err = write(buf); err == nil {
		err = buf.Flush()
	}
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = Replace(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Replace renames a finished file or folder to path, and flushes the new name to the disk. It must be on the same disk as path. A
// file at path is replaced. A folder at path is an error.
func Replace(finished, path string) error {
	if err := os.Rename(finished, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir flushes a folder's names to the disk. A rename is safe only after this.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(f), f.Close())
}

// makeDir makes a folder and its parents, and flushes the names of those that it made.
func makeDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	up := filepath.Dir(dir)
	if up != dir {
		if err := makeDir(up); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() { // made by another process meanwhile
			return nil
		}
		return err
	} else if err != nil {
		return err
	}
	return SyncDir(up)
}

// Sweep removes the unfinished files that killed processes left in a folder, but not in its subfolders. No process may be writing
// there. A missing folder is no error.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), Prefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
