// Package reexec lets a test binary start itself as another process, to be killed or to wait for a lock: what happens to files
// between two processes cannot be tested inside one.
package reexec

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// env holds, in a process that Command made, what it is to work on.
const env = "TOOLROUTE_TEST_WORK"

// Main is for TestMain. It runs the tests, but in a process that Command made it runs work instead, with Command's argument, and
// ends: with exit status 0, or 1 after an error, which goes to standard error.
func Main(m *testing.M, work func(on string) error) {
	on, ok := os.LookupEnv(env)
	if !ok {
		os.Exit(m.Run())
	}
	if err := work(on); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command is this test binary, to be started as a process that works instead of testing.
func Command(t testing.TB, on string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), env+"="+on)
	return cmd
}
