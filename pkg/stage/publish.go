package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
)

// experiments is the folder of the results of the profiles that are not their suite's story.
const experiments = "experiments"

// publishedEpisodes is how many episodes are published beside the shown ones, so that scores can be checked again.
const publishedEpisodes = 200

// publishedFiles are the files of a report that both a story and an experiment publish: tables, comparisons, the strata, the studies, the
// history of reinforcement, the manifest. The others can be made again from the run, and nobody reads them in the repository.
var publishedFiles = []string{
	"results_table.md", "results_table.csv", "results_by_stratum.csv", "results_by_seed.csv", "comparisons.md", "choices.md", "choices.csv",
	"ablations.md", "hacking.md", "prices.md", "warnings.md", historyFile, manifestFile,
}

// publishedPictures are the pictures that the documentation and the notebooks show of a committed story.
var publishedPictures = []string{"cost_vs_success.png", "history.png"}

// Publish copies the parts of a finished run that readers look at to results/<suite>, which is committed: publishedFiles,
// publishedPictures, the reward profiles, the shown trajectories, a sample of episodes, and the models of the first training seed. It
// removes what an earlier publication left there and this one lacks. The setting publish can say that a run is an experiment. Then only
// publishedFiles and the reward profiles are copied, to results/<suite>/experiments/<profile>.
//
// A file that was changed after its stage wrote it is refused. So is everything from stages that ran in a tree with uncommitted changes, and
// publication from such a tree.
func (e *Env) Publish(ctx context.Context) error {
	if e.Config.Publish == config.PublishNothing {
		return fmt.Errorf("profile %s is not for publication (its setting publish is %s): publish another profile", e.Options.Profile, config.PublishNothing)
	}
	reported, err := e.finishedReport(ctx)
	if err != nil {
		return err
	}
	root, err := run.Root()
	if err != nil {
		return err
	}
	to := e.Results
	content := map[string][]byte{}
	experiment := e.Config.Publish == config.PublishExperiment
	if experiment {
		to = filepath.Join(to, experiments, e.Options.Profile)
	} else if content, err = e.checkpoints(); err != nil {
		return err
	}
	models := size(content)
	add := func(stage, name string) error {
		b, err := e.Run.Read(stage, name)
		if err == nil {
			content[filepath.FromSlash(name)] = b
		}
		return err
	}
	for _, name := range reported {
		shown := slices.Contains(publishedPictures, name) || strings.HasPrefix(name, "trajectories/")
		if slices.Contains(publishedFiles, name) || shown && !experiment {
			if err := add(reportStage, name); err != nil {
				return err
			}
		}
	}
	profiles, _, err := e.storedProfiles()
	if err != nil {
		return err
	}
	for _, f := range profiles {
		if err := add(profileStage(f), f); err != nil {
			return err
		}
	}
	if !experiment {
		if content["sample.jsonl"], err = e.sampleEpisodes(ctx); err != nil {
			return err
		}
	}
	if mb, most := float64(size(content))/1e6, e.Config.Checkpoints.MaxMB; mb > most {
		return fmt.Errorf("%s would hold %.1f MB, %.1f of them models, more than checkpoints.max_mb, %g: name the recipes whose models are worth keeping, such as "+
			"--set 'checkpoints.publish=[%s]', or raise the limit. Nothing was written", to, mb, float64(models)/1e6, most, e.Config.Train[len(e.Config.Train)-1])
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := run.WriteFile(filepath.Join(to, name), content[name]); err != nil {
			return err
		}
	}
	if !experiment {
		if err := e.updateReadme(filepath.Join(root, "README.md"), content["results_table.csv"]); err != nil {
			return err
		}
	}
	if err := removeOthers(to, content); err != nil {
		return err
	}
	e.Logf("published to %s: %d files", to, len(content))
	return nil
}

// finishedReport lists the files of the run's report, or says why it may not be published.
func (e *Env) finishedReport(ctx context.Context) ([]string, error) {
	var m run.Manifest
	if err := e.Run.ReadJSON(reportStage, manifestFile, &m); errors.Is(err, run.ErrNotDone) {
		return nil, fmt.Errorf("%s has no finished report: run the report stage first", e.Run.Dir)
	} else if err != nil {
		return nil, err
	}
	if why := m.Unpublishable(); why != "" {
		return nil, fmt.Errorf("%s was made, in whole or in part, at a revision that is no commit, so nobody could make it again: %s. Commit, and run with --fresh; nothing was published", e.Run.Dir, why)
	}
	now := run.Manifest{Revision: e.tree(), Revisions: m.Revisions}
	if why := now.Unpublishable(); why != "" {
		return nil, fmt.Errorf("the project's folder is at revision %s: files that decide results are not committed (git status says which). Commit them or put them back; nothing was published", now.Revision)
	}
	files, err := e.episodeFiles(ctx)
	if err != nil {
		return nil, err
	}
	sources, err := e.sources(ctx, files)
	if err != nil {
		return nil, err
	}
	if err := e.Run.Check(reportStage, e.reportKey(sources)); errors.Is(err, run.ErrNotDone) {
		return nil, fmt.Errorf("the report in %s was made with other settings, or of other episodes and policies, than are there now: run the report stage again", e.Run.Dir)
	} else if err != nil {
		return nil, err
	}
	return e.Run.Outputs(reportStage)
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

func (e *Env) sampleEpisodes(ctx context.Context) ([]byte, error) {
	trs, err := e.Episodes(ctx)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, t := range report.Sample(trs, publishedEpisodes, e.Config.Seed) {
		line, err := t.Line()
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// updateReadme puts the headline rows (the first budget mode, greedy) between the marks of the suite in the README, so that
// its numbers are always those of the committed results.
func (e *Env) updateReadme(path string, results []byte) error {
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
	table, err := report.Headline(results, e.Config.Eval.BudgetModes[0], e.Definition.Summary)
	if err != nil {
		return err
	}
	return run.WriteFile(path, []byte(before+begin+table+end+after))
}
