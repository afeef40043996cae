package stage

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// experiments is the folder of the results of the profiles that are not their suite's story.
const experiments = "experiments"

// sampleEpisodes is how many episodes are published beside the shown ones, so that scores can be checked again.
const sampleEpisodes = 200

// Publish copies a finished run's tables, plots, shown trajectories, a sample of episodes, the manifest, and the models of
// the first training seed to results/<suite>, which is committed. What an earlier publication left there and this one lacks
// is removed. An experiment (the setting publish says which a run is) leaves its tables, plots, curves and manifest in
// results/<suite>/experiments/<profile>.
func (e *Env) Publish(ctx context.Context) error {
	if _, err := os.Stat(e.Run.Path("manifest.json")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no finished report: run the report stage first", e.Run.Dir)
	}
	if e.Config.Publish == config.PublishNothing {
		return fmt.Errorf("profile %s is not for publication (its setting publish is %s): publish another profile", e.Options.Profile, config.PublishNothing)
	}
	root, err := run.Root()
	if err != nil {
		return err
	}
	to := e.results
	content := map[string][]byte{}
	experiment := e.Config.Publish == config.PublishExperiment
	if experiment {
		to = filepath.Join(to, experiments, e.Options.Profile)
	} else if content, err = e.checkpoints(); err != nil {
		return err
	}
	models := size(content)
	add := func(name string) error {
		b, err := os.ReadFile(e.Run.Path(name))
		if err == nil {
			content[name] = b
		}
		return err
	}
	entries, err := os.ReadDir(e.Run.Dir)
	if err != nil {
		return err
	}
	for _, f := range entries {
		// report.html holds thousands of episodes and is made again from the run; SVG copies of the plots likewise.
		if ext := filepath.Ext(f.Name()); !f.IsDir() && slices.Contains([]string{".md", ".csv", ".png", ".json"}, ext) {
			if err := add(f.Name()); err != nil {
				return err
			}
		}
	}
	files, _, err := e.storedProfiles()
	if err != nil {
		return err
	}
	if !experiment {
		trajectories, err := filepath.Glob(e.Run.Path("trajectories", "*"))
		if err != nil {
			return err
		}
		for _, f := range trajectories {
			files = append(files, filepath.Join("trajectories", filepath.Base(f)))
		}
	}
	for _, f := range files {
		if err := add(f); err != nil {
			return err
		}
	}
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			for _, f := range []string{"metrics.jsonl", "result.json", historyFile} {
				if f == "metrics.jsonl" && experiment && !algorithmOf(e.Config.Recipes[name]).gated {
					continue // thousands of steps of imitation, which no picture shows
				}
				if err := add(filepath.Join(e.folder(seed, name), f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	if mb, most := float64(size(content))/1e6, e.Config.Checkpoints.MaxMB; mb > most {
		return fmt.Errorf("%s would hold %.1f MB, %.1f of them models, more than checkpoints.max_mb, %g: name the recipes whose models are worth keeping, such as "+
			"--set 'checkpoints.publish=[%s]', or raise the limit. Nothing was written", to, mb, float64(models)/1e6, most, e.Config.Train[len(e.Config.Train)-1])
	}
	for name, b := range content {
		if err := run.WriteFile(filepath.Join(to, name), b); err != nil {
			return err
		}
	}
	if !experiment {
		if err := e.publishSample(ctx, filepath.Join(to, "sample.jsonl")); err != nil {
			return err
		}
		content["sample.jsonl"] = nil
		if err := e.updateReadme(filepath.Join(root, "README.md")); err != nil {
			return err
		}
	}
	if err := removeOthers(to, content); err != nil {
		return err
	}
	e.Logf("published to %s: %d files", to, len(content))
	return nil
}

func size(content map[string][]byte) (n int) {
	for _, b := range content {
		n += len(b)
	}
	return n
}

// removeOthers removes the files of a folder that are not among those kept, and folders left empty; the experiments below it
// stay.
func removeOthers(dir string, keep map[string][]byte) error {
	var folders []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && rel == experiments {
			return filepath.SkipDir
		}
		if d.IsDir() {
			folders = append(folders, path)
		} else if _, kept := keep[rel]; !kept {
			return os.Remove(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(folders) { // the deepest last
		if left, err := os.ReadDir(f); err != nil {
			return err
		} else if len(left) == 0 {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Env) publishSample(ctx context.Context, path string) error {
	trs, err := e.Episodes(ctx)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := trajectory.OpenWriter(path)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(report.Sample(trs, sampleEpisodes, e.Config.Seed)...), w.Close())
}

// updateReadme puts the headline rows (the first budget mode, greedy) between the marks of the suite in the README, so that
// its numbers are always those of the committed results.
func (e *Env) updateReadme(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- results:"+e.Options.Suite+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(b), begin)
	if !ok {
		return nil
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return fmt.Errorf("%s: no %s after %s", path, end, begin)
	}
	table, err := HeadlineTable(e.Run.Path("results_table.csv"), e.Config.Eval.BudgetModes[0])
	if err != nil {
		return err
	}
	return run.WriteFile(path, []byte(before+begin+table+end+after))
}

// HeadlineTable renders the greedy rows of one budget mode of a results_table.csv as markdown.
func HeadlineTable(csvFile, budget string) (string, error) {
	f, err := os.Open(csvFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s: %w", csvFile, err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	number := func(r []string, name string) string {
		if r[at[name]] == "" {
			return "-"
		}
		v, err := strconv.ParseFloat(r[at[name]], 64)
		if err != nil {
			return r[at[name]]
		}
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	type column struct{ title, name string }
	columns := []column{{"mean cost", "mean_cost"}, {"cost / optimal", "cost_ratio"}, {"success / cost", "success_per_unit_cost"}, {"calls", "calls_per_task"}}
	if _, own := at["chain_rate"]; own {
		columns = []column{{"calc", "acc_calc"}, {"lookup", "acc_lookup"}, {"compose", "acc_compose"}, {"chain rate", "chain_rate"}, {"chain rate, sampled", "chain_rate_sampled"}}
	}
	var out strings.Builder
	out.WriteString("| method | split | seeds | success |")
	for _, c := range columns {
		out.WriteString(" " + c.title + " |")
	}
	out.WriteString("\n|" + strings.Repeat(" --- |", 4+len(columns)) + "\n")
	var learned [][]string // the first row of each learned method
	for _, r := range rows[1:] {
		if r[at["budget"]] != budget || r[at["decoding"]] != "greedy" {
			continue
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s (%s to %s) |", r[at["method"]], r[at["split"]], r[at["seeds"]], number(r, "success_rate"), number(r, "success_lo"), number(r, "success_hi"))
		for _, c := range columns {
			out.WriteString(" " + number(r, c.name) + " |")
		}
		out.WriteString("\n")
		if tokens, ok := at["train_tokens"]; ok && r[tokens] != "" && !slices.ContainsFunc(learned, func(l []string) bool { return l[at["method"]] == r[at["method"]] }) {
			learned = append(learned, r)
		}
	}
	if _, ok := at["train_demonstrations"]; !ok || len(learned) == 0 {
		return out.String(), nil
	}
	out.WriteString("\nWhat the learned rows were trained on, all steps before included, a training seed:\n\n| method | training seeds | demonstrations | of worlds | episodes | in worlds | trained tokens | processed tokens | minutes |\n|" + strings.Repeat(" --- |", 9) + "\n")
	for _, r := range learned {
		count := func(name string) string {
			if v := r[at[name]]; v != "" && v != "0" {
				return v
			}
			return "-"
		}
		minutes := "-"
		if s, err := strconv.ParseFloat(r[at["train_wall_s"]], 64); err == nil {
			minutes = strconv.FormatFloat(s/60, 'f', 1, 64)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r[at["method"]], strings.ReplaceAll(count("train_seeds"), " ", ", "), count("train_demonstrations"), count("train_demo_worlds"),
			count("train_episodes"), count("train_rollout_worlds"), count("train_tokens"), count("train_processed_tokens"), minutes)
	}
	return out.String(), nil
}
