package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// MetricsRecord is one line of a training run's metrics file: the values that were logged at a step.
type MetricsRecord struct {
	Step   int                `json:"step"`
	Values map[string]float64 `json:"values"`
}

// TrainingRun is the metrics of one run, named as the legends name it (a method, or a method and a seed).
type TrainingRun struct {
	Name    string
	Records []MetricsRecord
}

// ReadMetrics reads the lines of a metrics file: {"step": 3, "values": {"reward_mean": 0.41}}, or flat, {"step": 3,
// "reward_mean": 0.41}; text values of a flat line are ignored. An incomplete last line, as a killed run leaves it, is dropped. A step that
// was logged twice keeps its last line. A null is a value that is not a number, and so are the bare NaN and Infinity that some programs
// write.
func ReadMetrics(b []byte) ([]MetricsRecord, error) {
	byStep := map[int]MetricsRecord{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<26)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var raw map[string]any
		err := json.Unmarshal(text, &raw)
		if err != nil {
			err = json.Unmarshal(notFinite.ReplaceAll(text, []byte("${1}null")), &raw)
		}
		if err != nil {
			if !bytes.HasSuffix(b, []byte("\n")) && bytes.HasSuffix(b, lines.Bytes()) {
				break
			}
			return nil, fmt.Errorf("metrics line %d: %w", n, err)
		}
		step, ok := raw["step"].(float64)
		if !ok {
			return nil, fmt.Errorf("metrics line %d: no number called step", n)
		}
		rec := MetricsRecord{Step: int(step), Values: map[string]float64{}}
		values := raw
		if nested, ok := raw["values"].(map[string]any); ok {
			values = nested
		}
		for name, v := range values {
			if f, ok := v.(float64); ok && name != "step" {
				rec.Values[name] = f
			} else if v == nil {
				rec.Values[name] = math.NaN()
			}
		}
		if old, ok := byStep[rec.Step]; ok { // evaluations may log a line of their own at a step
			for name, v := range old.Values {
				if _, again := rec.Values[name]; !again {
					rec.Values[name] = v
				}
			}
		}
		byStep[rec.Step] = rec
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	out := make([]MetricsRecord, 0, len(byStep))
	for _, r := range byStep {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b MetricsRecord) int { return cmp.Compare(a.Step, b.Step) })
	return out, nil
}

var notFinite = regexp.MustCompile(`(:\s*)(?:NaN|[-+]?Infinity)\b`)

// trainingPanel says which metrics a panel of a training picture shows. A name that ends in "*" shows all metrics with
// that beginning. A panel without data is left out.
type trainingPanel struct {
	y       string
	rate    bool
	log     bool
	metrics []string
	spread  string // metric that is the half width of a band around the first
}

var trainingPictures = []struct {
	name, title, subtitle string
	panels                []trainingPanel
}{
	{"training_reward", "Reward and success in training", "Per step, over the rollouts of the step; band: one standard deviation of the reward.", []trainingPanel{
		{y: "reward", metrics: []string{"reward_mean", "reward"}, spread: "reward_std"},
		{y: "success rate", rate: true, metrics: []string{"success"}},
		{y: "success on validation", rate: true, metrics: []string{"val_success*", "val/*success*"}},
		{y: "spend per episode", metrics: []string{"spend", "spend_mean"}},
		{y: "loss", metrics: []string{"loss", "val_loss", "val/loss"}},
		{y: "accuracy", rate: true, metrics: []string{"accuracy", "val/accuracy", "rewards/accuracies", "val/rewards/accuracies"}},
	}},
	{"training_kl_entropy", "Distance from the start and entropy", "Per step, over the sampled tokens; k3 estimate of the KL to the policy at the start of the stage.", []trainingPanel{
		{y: "KL (nats per token)", metrics: []string{"kl"}},
		{y: "entropy (nats per token)", metrics: []string{"entropy"}},
		{y: "sampler/trainer log-prob difference (nats)", metrics: []string{"sampler_gap*"}},
	}},
	{"training_grad", "Optimiser", "Per step; the norm before clipping.", []trainingPanel{
		{y: "gradient norm", log: true, metrics: []string{"grad_norm"}},
		{y: "learning rate", metrics: []string{"lr", "learning_rate"}},
		{y: "share of tokens clipped", metrics: []string{"clip_low", "clip_high"}},
	}},
	{"training_diversity", "Diversity of the rollouts", "Per step; groups without variance carry no gradient.", []trainingPanel{
		{y: "groups without variance", rate: true, metrics: []string{"zero_variance*"}},
		{y: "distinct trajectories per group", metrics: []string{"distinct*"}},
		{y: "truncated rollouts", rate: true, metrics: []string{"truncated_share"}},
		{y: "valid actions", rate: true, metrics: []string{"format_valid*"}},
		{y: "share of calls", rate: true, metrics: []string{"tool_mix*", "tool/*"}},
	}},
}

// trainingFigures turns the metrics of runs into the training pictures; pictures without any data are left out.
func trainingFigures(runs []TrainingRun) []*figure {
	var out []*figure
	for _, t := range trainingPictures {
		pic := Picture{Name: t.name, Title: t.title, Subtitle: t.subtitle}
		for _, tp := range t.panels {
			pan := Panel{X: "step", Y: tp.y, Rate: tp.rate, Log: tp.log}
			for _, run := range runs {
				for _, metric := range matching(run.Records, tp.metrics) {
					l := series(run.Records, metric, tp.spread)
					l.Name = run.Name
					if strings.HasSuffix(tp.metrics[0], "*") || len(matching(run.Records, tp.metrics)) > 1 {
						l.Name = strings.TrimSpace(run.Name + " " + metric)
					}
					pan.Lines = append(pan.Lines, l)
				}
			}
			if len(pan.Lines) > 0 {
				pic.Panels = append(pic.Panels, pan)
			}
		}
		if len(pic.Panels) > 0 {
			out = append(out, pic.figure())
		}
	}
	return out
}

// matching returns the names of the logged metrics that the patterns ask for, by name within each pattern.
func matching(records []MetricsRecord, patterns []string) []string {
	all := map[string]bool{}
	for _, r := range records {
		for name := range r.Values {
			all[name] = true
		}
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	var out []string
	for _, p := range patterns {
		for _, n := range names {
			if ok := n == p || glob(p, n); ok && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// glob matches a pattern in which each "*" stands for any text.
func glob(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return name == ""
}

func series(records []MetricsRecord, metric, spread string) Line {
	var l Line
	for _, r := range records {
		v, ok := r.Values[metric]
		if !ok {
			continue
		}
		l.X, l.Y = append(l.X, float64(r.Step)), append(l.Y, v)
		if spread != "" {
			s, ok := r.Values[spread]
			if !ok {
				s = math.NaN()
			}
			l.Lo, l.Hi = append(l.Lo, v-s), append(l.Hi, v+s)
		}
	}
	return l
}
