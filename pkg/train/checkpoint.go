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

// checkpointVersion changes when older checkpoints can no longer be continued.
const checkpointVersion = 2

// errVersion says that a checkpoint is whole but of another version.
var errVersion = errors.New("another version of the format")

const (
	stateFile     = "state.json"
	tensorsFile   = "state.safetensors"
	bestFile      = "best.json"
	stepPrefix    = "step-"
	damagedPrefix = "damaged-"
)

// tensorMap holds a checkpoint's tensors by name: param.*, m.* and v.*.
type tensorMap map[string]safetensors.Tensor

// checkpoint is what a run needs to go on as if it had not stopped, beside the tensors: no clock, no path, so equal
// runs write equal bytes. Random streams are keyed by (seed, purpose, epoch), so the position in the data is their
// state.
type checkpoint struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"`
	// Step is the number of optimizer steps taken.
	Step int `json:"step"`
	// Epoch and Index are the next optimizer step's position in the data; Data is a hash of that epoch's examples.
	Epoch int    `json:"epoch"`
	Index int    `json:"index"`
	Data  string `json:"data"`
	// Config is the configuration that the run was started with; a run is only continued under the same one.
	Config json.RawMessage `json:"config"`
	// TrainedTokens and ProcessedTokens count so far.
	TrainedTokens   int64 `json:"trained_tokens"`
	ProcessedTokens int64 `json:"processed_tokens"`
	// Best is the best validation so far, nil before the first.
	Best *BestMark `json:"best"`
	// Metrics is what metrics.jsonl was at this step, TimingBytes the size of timing.jsonl; what was written later is repeated.
	Metrics     logMark `json:"metrics"`
	TimingBytes int64   `json:"timing_bytes"`
	// Done says that the run ended, by its length or by ErrStop.
	Done bool `json:"done"`
	// Extra is the caller's own state.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Tensors is the SHA-256 of the tensor file, Self that of this file with Self empty.
	Tensors string `json:"tensors_sha256"`
	Self    string `json:"self_sha256"`
}

// BestMark is the best validation of a run.
type BestMark struct {
	Step  int     `json:"step"`
	Value float64 `json:"value"`
}

func (c checkpoint) sum() string {
	c.Self = ""
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// store is a folder of checkpoints, a sub-folder each. They are made under a temporary name and renamed, so that a
// folder named step-* is whole unless the disk lost something; its hashes tell.
type store struct {
	dir  string
	keep int // the newest ones that prune leaves
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
	defer os.RemoveAll(tmp) // fails after the rename, as it should
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
	if err := os.RemoveAll(final); err != nil { // a run that was resumed from before it
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
	slices.Sort(out) // the numbers are padded
	return out, nil
}

// latest reads the newest checkpoint that is whole and, unless usable is nil, passes it. skipped says what was wrong with newer ones, which are renamed
// damaged-step-*, out of the way of those that the run will make. Without any, the error is ErrNoCheckpoint. One that
// another version of this package wrote is an error, not damage.
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
	// The raw messages were indented with the file; their hash was taken of the compact form.
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

// sound checks a checkpoint's tensor: all numbers finite, and no second moment, a mean of squares, negative.
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

// restore puts a checkpoint's tensors of one prefix in the place of weights.
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

// fits reports whether a run of that kind and configuration may go on from the checkpoint.
func (c checkpoint) fits(kind string, config json.RawMessage) error {
	if c.Kind != kind {
		return fmt.Errorf("the checkpoint is of %s, this is %s", c.Kind, kind)
	}
	return sameConfig("", c.Config, config)
}

// sameConfig reports the first field, by its path, in which two configurations differ.
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

// hashWeights is a SHA-256 over names, shapes and bits.
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
