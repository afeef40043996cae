package benchmark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Result is a line of results.jsonl: what one task came to. Its figures are of the state alone.
type Result struct {
	Episode  string               `json:"episode_id"`
	Task     string               `json:"task"`
	Template string               `json:"template"`
	Answer   string               `json:"answer"`
	Gold     []string             `json:"gold"`
	End      trajectory.EndReason `json:"end"`
	// Correct, Evidenced and Success are the programmatic check: the answer equals gold, it rests on what was observed, and both where
	// the suite asks for both.
	Correct   bool            `json:"correct"`
	Evidenced bool            `json:"evidenced"`
	Success   bool            `json:"success"`
	Cost      price.Amount    `json:"cost"`     // in millionths
	Cheapest  price.Amount    `json:"cheapest"` // cost of the cheapest path, in millionths
	Failed    int             `json:"failed_calls"`
	Invalid   int             `json:"invalid"`
	Paths     suite.Agreement `json:"paths"` // the calls against those of the closest valid path
	// Judge is nil where none was asked: without a judge, and for a task without an answer.
	Judge *Judged `json:"judge,omitempty"`
}

// Judged is what asking the judge came to. Correct is nil where there is no verdict, and Error says why.
type Judged struct {
	Correct *bool  `json:"correct,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
}

// disagrees reports a verdict that is not that of the check.
func (r *Result) disagrees() bool {
	return r.Judge != nil && r.Judge.Correct != nil && *r.Judge.Correct != r.Correct
}

// checked is the programmatic part of a result.
func checked(t *trajectory.Trajectory) Result {
	return Result{Episode: t.EpisodeID, Task: t.Task.ID, Template: t.Task.Template, Answer: t.Outcome.Answer, Gold: t.Task.Gold, End: t.End,
		Correct: t.Outcome.Correct, Evidenced: t.Outcome.Evidenced, Success: t.Outcome.Verified, Cost: t.Outcome.Spend, Cheapest: t.Task.OptimalCost,
		Failed: t.Outcome.Failed, Invalid: t.Outcome.Invalid, Paths: suite.Agree(t)}
}

// Evaluation is how the states are evaluated.
type Evaluation struct {
	Judge Judge // nil asks none
	// Parallel is how many questions may be with the judge at once, at least 1.
	Parallel int
	// Again evaluates what was evaluated: it is for answers that the judge failed to give.
	Again bool
	Log   io.Writer
}

// Evaluate writes results.jsonl, a line a task. It goes on with what an interrupted process left. A file of another judge, or of other
// states, is made anew.
func (f *Folder) Evaluate(ctx context.Context, e Evaluation) error {
	states, err := f.States()
	if err != nil {
		return err
	}
	key, err := f.resultsKey(e.Judge)
	if err != nil {
		return err
	}
	work := func() ([]string, error) {
		if err := f.Claim(judgeStage, key, ResultsFile); err != nil {
			return nil, err
		}
		return []string{ResultsFile}, f.evaluate(ctx, states, e)
	}
	if e.Again && f.Done(judgeStage, key) { // one that was interrupted goes on
		return f.Renew(ctx, judgeStage, key, func() ([]string, error) {
			if err := os.Remove(f.Path(ResultsFile)); err != nil {
				return nil, err
			}
			return work()
		})
	}
	return f.Stage(ctx, judgeStage, key, work)
}

func (f *Folder) resultsKey(j Judge) (string, error) {
	hash, err := run.HashFile(f.Path(StatesFile))
	if err != nil {
		return "", err
	}
	var by any
	if j != nil {
		by = j.Identity()
	}
	return run.Key("results", format, hash, by), nil
}

func (f *Folder) evaluate(ctx context.Context, states []trajectory.Trajectory, e Evaluation) (err error) {
	path := f.Path(ResultsFile)
	out, err := trajectory.OpenLines(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	done, err := readResults(path)
	if err != nil {
		return err
	}
	for i, r := range done {
		if i >= len(states) || r.Episode != states[i].EpisodeID {
			return fmt.Errorf("%s:%d: episode %s does not follow the order of %s: delete the file, and the states are evaluated again", path, i+1, r.Episode, StatesFile)
		}
	}
	bar := run.NewProgress(e.Log, "  evaluation:", len(done))
	// What is asked runs ahead of what is written, so that lines keep the order of the states.
	ctx, cancel := context.WithCancelCause(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel(nil)
	type answer struct {
		judged *Judged
		err    error
	}
	queue := make(chan chan answer, max(e.Parallel, 1)-1)
	left := states[len(done):]
	asked.Go(func() {
		for i := range left {
			a := make(chan answer, 1)
			select {
			case queue <- a:
			case <-ctx.Done():
				return
			}
			asked.Go(func() {
				j, err := e.ask(ctx, &left[i])
				a <- answer{j, err}
			})
		}
	})
	for i := range left {
		var a answer
		select {
		case next := <-queue:
			a = <-next
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if a.err != nil {
			cancel(a.err)
			return a.err
		}
		r := checked(&left[i])
		r.Judge = a.judged
		line, err := encodeLine(r)
		if err != nil {
			return err
		}
		if err := out.Append(line); err != nil {
			return err
		}
		bar.Set(len(done)+i+1, len(states), "")
	}
	return nil
}

// ask returns what the judge says of a state; nil where it is not asked. The error is that of an ended context.
func (e Evaluation) ask(ctx context.Context, t *trajectory.Trajectory) (*Judged, error) {
	if e.Judge == nil || t.End != trajectory.Finished || strings.TrimSpace(t.Outcome.Answer) == "" {
		return nil, nil
	}
	v, err := e.Judge.Ask(ctx, Question{Question: t.Task.Question, Gold: t.Task.Gold, Type: t.Task.AnswerType, Answer: t.Outcome.Answer})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return &Judged{Error: err.Error()}, nil
	}
	return &Judged{Correct: &v.Correct, Reason: v.Reason}, nil
}

// Results reads the results of a benchmark that was evaluated to its end by a judge, nil for none.
func (f *Folder) Results(j Judge) ([]Result, error) {
	key, err := f.resultsKey(j)
	if err == nil {
		err = f.Check(judgeStage, key)
	}
	if err != nil {
		return nil, err
	}
	return readResults(f.Path(ResultsFile))
}

func readResults(path string) (out []Result, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	for r, err := range trajectory.Decode(file, path, func(line []byte) (r Result, err error) { return r, json.Unmarshal(line, &r) }) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}
