//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/reexec"
)

// script begins the command line of a process that is a script.
const script = "script:"

// asScript is a script of the chain suite in the smoke profile. It prints the settings that its flags gave, and does its work. With
// --train=[] it is interrupted in the middle of the work; with any stage but world it fails.
func asScript(line string) error {
	o := Options{Suite: "chain", Profile: "smoke"}
	os.Args = append([]string{"script"}, strings.Fields(line)...)
	Flags("99_script", "a script to be tested", &o)
	Do(o, func(ctx context.Context, e *Env) error {
		e.Logf("k %d %d, pass@%d, steps %d, methods %v, budgets %v %v, seed %d, fresh %v", e.Config.Eval.Attempts, e.Config.Profile.Attempts, e.Config.Eval.PassK, e.Config.MaxSteps, e.Config.Scripted(),
			e.Config.Eval.BudgetModes, e.Config.Baselines.BudgetModes, e.Config.Seed, o.Fresh)
		switch {
		case e.Config.Seed == stuckSeed: // work that does not heed its context
			for range 100 {
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
			return errors.New("Ctrl-C did not end the process")
		case len(e.Config.Train) == 0:
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		case e.Options.Stage != "":
			return errors.New("a mistake that has a name")
		}
		return nil
	})
	return nil
}

// stuckSeed is the seed of a script whose work never ends.
const stuckSeed = 4711

// A second Ctrl-C ends a process whose work does not come back from the first.
func TestSecondInterruptEndsTheProcess(t *testing.T) {
	cmd := reexec.Command(t, script+fmt.Sprintf("--seed %d --out %s", stuckSeed, t.TempDir()))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want by the signal:\n%s", err, out)
	}
}

// What scripts print for their flags, and their exit status: 0 done, 1 an error, 2 unknown flags, 130 interrupted.
func TestScripts(t *testing.T) {
	for line, want := range map[string]struct {
		status int
		said   string
	}{
		"": {0, "k 1 4, pass@0, steps 0"},
		"--k 3 --pass-k 2 --max-steps 5 --methods oracle,sft_lazy": {0, "k 3 3, pass@2, steps 5, methods [oracle]"},
		"--budget-mode none,soft --seed 7 --resume=false":          {0, "budgets [none soft] [none soft], seed 7, fresh true"},
		"--methods sft_lazy":          {0, "methods []"},
		"--help":                      {0, "--set key=value"},
		"--set eval.attempts=2 --k 3": {0, "k 3 3"}, // the later one counts
		"--k two":                     {1, "eval.attempts"},
		"--methods orcale":            {1, `no recipe and no baseline has the method "orcale"`},
		"--k 2 --pass-k 4":            {1, "eval.pass_k is 4"},
		"--set k":                     {2, "key=value"},
		"--buget-mode soft":           {2, "did you mean --budget-mode?"},
		"--pass-k 1 4":                {2, `unexpected argument "4"`},
		"--profile quick":             {1, `no profile is named "quick"`},
		"--stage world":               {1, "error: a mistake that has a name"},
		"--train ,":                   {130, "run the same command again to go on"},
	} {
		cmd := reexec.Command(t, script+line+" --out "+t.TempDir())
		out, err := cmd.CombinedOutput()
		status := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != want.status || !strings.Contains(string(out), want.said) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: status %d, want %d, and said, without %q:\n%s", line, status, want.status, want.said, out)
		}
	}
}

// A bound on the steps holds for every recipe, those with settings of their own included, and lengthens none.
func TestMaxStepsBoundEveryRecipe(t *testing.T) {
	e, err := Open(Options{Suite: "company", Out: t.TempDir(), Set: []string{"max_steps=100"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for name, want := range map[string][2]int{"base": {100, 30}, "sft": {100, 30}, "sft+grpo": {100, 30}} {
		sub, err := e.with(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{sub.Config.SFT.Run.MaxSteps, sub.Config.GRPO.Iterations}; got != want {
			t.Errorf("%s: %d steps of supervised training and %d iterations, want %d and %d", name, got[0], got[1], want[0], want[1])
		}
	}
	e.Config.MaxSteps = 20
	if sub, err := e.with("base"); err != nil || sub.Config.SFT.Run.MaxSteps != 20 || sub.Config.GRPO.Iterations != 20 {
		t.Errorf("20 steps at most: %+v, %v", sub.Config.SFT.Run, err)
	}
}
