package stage

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/suites"
)

// Flags fills options from the command line. Every script takes the same ones; further adds those of one script. doc says what the
// script does.
func Flags(name, doc string, o *Options, further ...func(*flag.FlagSet)) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // mistakes are reported below, in one line
	fs.Usage = func() {}
	help := func() {
		fs.SetOutput(os.Stdout)
		fmt.Fprintf(fs.Output(), "%s: %s\n\nRun it from the project's folder: go run ./scripts/%s [flags]\nAn interrupted run goes on where it was; what is done already is skipped.\n\nFlags:\n", name, doc, name)
		fs.PrintDefaults()
		fmt.Fprintf(fs.Output(), "\nAny other setting: --set key=value, with the keys of configs/default.yaml.\n")
	}
	fs.StringVar(&o.Suite, "suite", cmp.Or(o.Suite, suites.All[0].Name), "the `suite`: "+strings.Join(suites.Names(), ", "))
	fs.StringVar(&o.Profile, "profile", cmp.Or(o.Profile, "default"), "how much is done, a `profile`: "+strings.Join(config.Profiles(), ", "))
	fs.StringVar(&o.Model, "model", cmp.Or(o.Model, "tiny"), "the `model`, by its name in the table models of the settings: tiny is trained from scratch on the CPU")
	fs.StringVar(&o.ConfigFile, "config", o.ConfigFile, "YAML `file` of settings, over those of the profile")
	fs.StringVar(&o.Data, "data", o.Data, "`folder` of data sets (default data, or the profile's own)")
	fs.StringVar(&o.Out, "out", o.Out, "`folder` of runs (default runs)")
	fs.StringVar(&o.Stage, "stage", o.Stage, "only this `stage`, where the script runs several: "+stepNames())
	fs.BoolVar(&o.Plan, "plan", o.Plan, "list the stages of the run, what each reads, leaves and is decided by, and do nothing")
	resume := fs.Bool("resume", !o.Fresh, "go on with what an earlier run left; --resume=false forgets it")
	set := func(flagName, help string, assign func(v string) []string) {
		fs.Func(flagName, help, func(v string) error {
			for _, s := range assign(v) {
				if _, err := config.Assignment(s); err != nil {
					return err
				}
				o.Set = append(o.Set, s)
			}
			return nil
		})
	}
	each := func(keys ...string) func(string) []string {
		return func(v string) []string {
			var out []string
			for _, k := range keys {
				out = append(out, k+"="+v)
			}
			return out
		}
	}
	list := func(keys ...string) func(string) []string {
		return func(v string) []string {
			return each(keys...)("[" + strings.Join(strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }), ", ") + "]")
		}
	}
	set("set", "`key=value`, for any setting; may be repeated", func(v string) []string { return []string{v} })
	set("seed", "`seed` of the world and the evaluation", each("seed"))
	set("n-tasks", "evaluate only so many `tasks` of each split, and profile so many, stratified", each("eval.n_tasks", "profile.tasks"))
	set("k", "`attempts` at each task of sampled rows and of the reward profile", each("eval.attempts", "profile.attempts"))
	set("pass-k", "`k` of pass@k, beside which pass@1 always stands", each("eval.pass_k"))
	set("budget-mode", "`modes` to evaluate in: soft, hard or soft,hard", list("eval.budget_modes", "baselines.budget_modes"))
	set("max-steps", "`steps` of supervised training, and iterations of reinforcement, at most, for every recipe", each("max_steps"))
	set("methods", "`list` of the methods that are played, scripted and learned, such as oracle,sft", list("eval.methods"))
	set("train", "`list` of recipes to train and evaluate", list("train"))
	for _, add := range further {
		add(fs)
	}
	err := fs.Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		help()
		os.Exit(0)
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; flags begin with --", fs.Arg(0))
	}
	if err != nil {
		var known []string
		fs.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		hint := ""
		if _, wrong, unknown := strings.Cut(err.Error(), "flag provided but not defined: -"); unknown {
			if near := config.Nearest(wrong, known); near != "" {
				hint = fmt.Sprintf("; did you mean --%s?", near)
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %v%s (--help lists the flags)\n", name, err, hint)
		os.Exit(2)
	}
	o.Fresh = !*resume
}

// Do opens a run, does the work, and ends the process with a message when it fails. After Ctrl-C it keeps everything done so far, and the
// next run goes on from there.
func Do(o Options, work func(ctx context.Context, e *Env) error) {
	err := do(o, work)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(os.Stderr, "interrupted; run the same command again to go on (%v)\n", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func do(o Options, work func(ctx context.Context, e *Env) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once, even if a call hangs
	if o.Plan {
		o.Fresh = false // a plan deletes nothing
		work = printPlan
	}
	e, err := Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return work(ctx, e)
}

// printPlan writes the plan to standard output.
func printPlan(ctx context.Context, e *Env) error {
	stages, err := e.Plan(ctx)
	if err != nil {
		return err
	}
	fmt.Print(PlanTable(stages))
	return nil
}

// steps are the stages of a suite in order, by the names of the --stage flag.
var steps = []struct {
	name string
	run  func(*Env, context.Context) error
}{
	{"world", (*Env).World}, {"baselines", (*Env).Baselines}, {"train", (*Env).Train}, {"profile", (*Env).Profiles}, {"evaluate", (*Env).Evaluate}, {"report", (*Env).Report},
}

func stepNames() string {
	var names []string
	for _, s := range steps {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// All runs every stage of a suite in order, or the one that Options.Stage names.
func All(ctx context.Context, e *Env) error {
	found := false
	for _, s := range steps {
		if only := e.Options.Stage; only != "" && only != s.name {
			continue
		}
		found = true
		if err := s.run(e, ctx); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("--stage: no stage is named %q; the stages are %s", e.Options.Stage, stepNames())
	}
	return nil
}
