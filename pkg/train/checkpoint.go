package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/wholefile"
)

// ErrNoCheckpoint says that a folder holds no checkpoint that can be read.
var ErrNoCheckpoint = errors.New("no usable checkpoint")

// checkpointVersion is raised when older checkpoints can no longer be resumed.
const checkpointVersion = 2

// errVersion says that a checkpoint is intact but has another version.
var errVersion = errors.New("another version of the format")

const (
	stateFile     = "state.json"
	tensorsFile   = "state.safetensors"
	bestFile      = "best.json"
	stepPrefix    = "step-"
	damagedPrefix = "damaged-"
)

// tensorMap holds a checkpoint's tensors by name: weights are param.*, Adam's moments m.* and v.*.
type tensorMap map[string]safetensors.Tensor

// checkpoint is what a run needs besides the tensors to go on as if it had not stopped. It has no times and no paths, so equal
// runs write equal bytes. It has no state of random generators either: streams are keyed by (seed, purpose, epoch), so the
// position in the data is enough.
type checkpoint struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"`
	// Step is the number of optimizer steps taken.
	Step int `json:"step"`
	// Epoch and Index are the position of the next optimizer step in the data. Data is a hash of that epoch's examples.
	Epoch int    `json:"epoch"`
	Index int    `json:"index"`
	Data  string `json:"data"`
	// Config is the configuration of the run. Resuming with another one is an error.
	Config json.RawMessage `json:"config"`
	// TrainedTokens and ProcessedTokens are the counts so far; see [Summary].
	TrainedTokens   int64 `json:"trained_tokens"`
	ProcessedTokens int64 `json:"processed_tokens"`
	// Best is the best validation so far, nil before the first.
	Best *BestMark `json:"best"`
	// Metrics describes metrics.jsonl at this step, and TimingBytes is the size of timing.jsonl. Resuming cuts off later lines,
	// because the run writes them again.
	Metrics     logMark `json:"metrics"`
	TimingBytes int64   `json:"timing_bytes"`
	// Done says that the run ended: it took all its steps, or Progress returned ErrStop.
	Done bool `json:"done"`
	// Extra is the caller's own state.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Tensors is the SHA-256 of the tensor file. Self is that of this struct's JSON with Self empty.
	Tensors string `json:"tensors_sha256"`
	Self    string `json:"self_sha256"`
}

// BestMark is the best validation of a run.
type BestMark struct {
	Step  int     `json:"step"`
	Value float64 `json:"value"`
}

// sum computes Self.
func (c checkpoint) sum() string {
	c.Self = ""
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// store is a folder of checkpoints, with a sub-folder for each. A checkpoint is written under a temporary name and then renamed.
// So a folder named step-* is complete, unless the disk lost something; the hashes in it tell.
type store struct {
	dir  string
	keep int // how many of the newest checkpoints prune leaves
}

func (s store) path(step int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%08d", stepPrefix, step))
}

// save writes a checkpoint of weights and moments, then removes old ones.
func (s store) save(c checkpoint, trained, m, v *lm.Weights) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint of step %d in %s: %w", c.Step, s.dir, err)
		}
	}()
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.dir, wholefile.Prefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // finds nothing after the rename
	var all []safetensors.Tensor
	for _, part := range []struct {
		prefix string
		w      *lm.Weights
	}{{"param.", trained}, {"m.", m}, {"v.", v}} {
		ts, err := part.w.Host()
		if err != nil {
			return err
		}
		for _, t := range ts {
			t.Name = part.prefix + t.Name
			if err := sound(t); err != nil {
				return err
			}
			all = append(all, t)
		}
	}
	if err := safetensors.WriteFile(filepath.Join(tmp, tensorsFile), all, nil); err != nil {
		return err
	}
	if c.Tensors, err = hashFile(filepath.Join(tmp, tensorsFile)); err != nil {
		return err
	}
	c.Version = checkpointVersion
	c.Self = c.sum()
	if err := writeJSON(filepath.Join(tmp, stateFile), c); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	final := s.path(c.Step)
	if err := os.RemoveAll(final); err != nil { // left by a run that was resumed from an earlier checkpoint
		return err
	}
	if err := wholefile.Replace(tmp, final); err != nil {
		return err
	}
	if c.Best != nil {
		if err := writeJSON(filepath.Join(s.dir, bestFile), c.Best); err != nil {
			return err
		}
	}
	return s.prune(c.Best)
}

// prune removes all but the newest checkpoints and the best.
func (s store) prune(best *BestMark) error {
	names, err := s.list()
	if err != nil {
		return err
	}
	for i, name := range names {
		if i < len(names)-max(1, s.keep) && (best == nil || filepath.Join(s.dir, name) != s.path(best.Step)) {
			if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// list names the checkpoints, oldest first.
func (s store) list() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), stepPrefix) {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out) // steps are padded with zeros
	return out, nil
}

// latest reads the newest checkpoint that is intact and that usable accepts (nil accepts all). Newer ones are renamed
// damaged-step-*, so that the run can write checkpoints of these steps again; skipped says what is wrong with them. If there is no
// usable checkpoint the error is ErrNoCheckpoint. A checkpoint of another version is an error and is left as it is.
func (s store) latest(usable func(checkpoint) error) (c checkpoint, ts tensorMap, skipped []error, err error) {
	names, err := s.list()
	if err != nil {
		return c, nil, nil, err
	}
	if err := wholefile.Sweep(s.dir); err != nil {
		return c, nil, nil, err
	}
	for _, name := range slices.Backward(names) {
		c, ts, err := s.read(name)
		if err == nil && usable != nil {
			err = usable(c)
		}
		if err == nil {
			return c, ts, skipped, nil
		}
		err = fmt.Errorf("checkpoint %s is not usable: %w", filepath.Join(s.dir, name), err)
		if errors.Is(err, errVersion) {
			return c, nil, skipped, err
		}
		skipped = append(skipped, err)
		aside := filepath.Join(s.dir, damagedPrefix+name)
		if err := errors.Join(os.RemoveAll(aside), os.Rename(filepath.Join(s.dir, name), aside)); err != nil {
			return c, nil, skipped, err
		}
	}
	return c, nil, skipped, fmt.Errorf("%s: %w", s.dir, ErrNoCheckpoint)
}

// read reads a checkpoint and checks its version, hashes and numbers.
func (s store) read(name string) (c checkpoint, ts tensorMap, err error) {
	dir := filepath.Join(s.dir, name)
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return c, nil, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, nil, fmt.Errorf("%s: %w", stateFile, err)
	}
	if c.Version != checkpointVersion {
		return c, nil, fmt.Errorf("%s: %w: it has version %d, this program reads %d", stateFile, errVersion, c.Version, checkpointVersion)
	}
	// Writing the file indented the raw messages. The hash is of their compact form.
	for _, raw := range []*json.RawMessage{&c.Config, &c.Extra} {
		var compact bytes.Buffer
		if len(*raw) > 0 && json.Compact(&compact, *raw) == nil {
			*raw = compact.Bytes()
		}
	}
	if got := c.sum(); got != c.Self {
		return c, nil, fmt.Errorf("%s: content has hash %.12s, want %.12s", stateFile, got, c.Self)
	}
	sum, err := hashFile(filepath.Join(dir, tensorsFile))
	if err != nil {
		return c, nil, err
	}
	if sum != c.Tensors {
		return c, nil, fmt.Errorf("%s: content has hash %.12s, want %.12s", tensorsFile, sum, c.Tensors)
	}
	f, err := safetensors.Open(filepath.Join(dir, tensorsFile))
	if err != nil {
		return c, nil, err
	}
	defer f.Close()
	ts = tensorMap{}
	for _, in := range f.Infos() {
		data, shape, err := f.Float32(in.Name)
		if err != nil {
			return c, nil, err
		}
		ts[in.Name] = safetensors.Tensor{Name: in.Name, Shape: shape, Data: data}
		if err := sound(ts[in.Name]); err != nil {
			return c, nil, fmt.Errorf("%s: %w", tensorsFile, err)
		}
	}
	return c, ts, nil
}

// sound checks a checkpoint's tensor. All its numbers must be finite. Second moments are means of squares, so they must not be
// negative.
func sound(t safetensors.Tensor) error {
	if err := t.CheckFinite(); err != nil {
		return err
	}
	if strings.HasPrefix(t.Name, "v.") {
		if i := slices.IndexFunc(t.Data, func(x float32) bool { return x < 0 }); i >= 0 {
			return fmt.Errorf("tensor %q, a mean of squares, has the value %v at index %d", t.Name, t.Data[i], i)
		}
	}
	return nil
}

// restore replaces weights by a checkpoint's tensors of one prefix.
func restore(w *lm.Weights, prefix string, ts tensorMap) error {
	names := w.Names()
	var list []safetensors.Tensor
	for _, name := range names {
		t, ok := ts[prefix+name]
		if !ok {
			return fmt.Errorf("the checkpoint has no tensor %q: it belongs to another model", prefix+name)
		}
		t.Name = name
		list = append(list, t)
	}
	fresh, err := lm.WeightsFromHost(list)
	if err != nil {
		return err
	}
	return w.Replace(fresh.Tensors())
}

// fits returns an error if the checkpoint is of another kind of run, or of another configuration.
func (c checkpoint) fits(kind string, config json.RawMessage) error {
	if c.Kind != kind {
		return fmt.Errorf("the checkpoint is of %s, this is %s", c.Kind, kind)
	}
	return sameConfig("", c.Config, config)
}

// sameConfig returns an error that names the path of the first field in which two configurations differ.
func sameConfig(path string, then, now json.RawMessage) error {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(then, &a) != nil || json.Unmarshal(now, &b) != nil { // not objects
		if !bytes.Equal(then, now) {
			return fmt.Errorf("the checkpoint was made with %s = %s, this run has %s: resume with the same configuration or start in another folder", path, then, now)
		}
		return nil
	}
	keys := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		if err := sameConfig(strings.TrimPrefix(path+"."+k, "."), a[k], b[k]); err != nil {
			return err
		}
	}
	return nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(path, append(b, '\n'))
}

// hashWeights is the SHA-256 of the names, shapes and values of weights.
func hashWeights(w *lm.Weights) (string, error) {
	ts, err := w.Host()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, t := range ts {
		fmt.Fprintf(h, "%q %v\n", t.Name, t.Shape)
		if err := binary.Write(h, binary.LittleEndian, t.Data); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
