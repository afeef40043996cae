package trajectory_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func record(i int) trajectory.Trajectory {
	return trajectory.Trajectory{
		Version: trajectory.Version, EpisodeID: fmt.Sprintf("m/t%d", i), Suite: "mini", Seed: math.MaxUint64, End: trajectory.Finished,
		Task: trajectory.Task{ID: "t", Gold: []string{"1"}, OptimalCost: price.Of(0.5), GoldCalls: map[string]int{"b": 1, "a": 2}},
		Turns: []trajectory.Turn{{
			Text: "x <&> \u2028 é\n```", Action: &trajectory.Action{Tool: "a", Args: json.RawMessage(`{"q":"a  <b> & \u00e9 é","n":123456789012345678901234567890}`)},
			ModelTime: 1.25, ToolTime: 0.5,
		}},
		Outcome: trajectory.Outcome{Answer: "1", Reward: trajectory.Reward{Total: 0.1 + 0.2}},
	}
}

func write(t *testing.T, path string, ts ...trajectory.Trajectory) {
	t.Helper()
	w, err := trajectory.OpenWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ts...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func ExampleStream() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "trajectories.jsonl")
	w, err := trajectory.OpenWriter(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(w.Write(record(1), record(2)), w.Close()); err != nil {
		fmt.Println(err)
	}
	for t, err := range trajectory.Stream(path) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(t.EpisodeID, t.Turns[0].Action.Tool)
	}
	// Output:
	// m/t1 a
	// m/t2 a
}

// A record read back is the record that was written, to the byte of its arguments and the last digit of its numbers.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	want := []trajectory.Trajectory{record(1), record(2), record(3)}
	write(t, path, want[:2]...)
	write(t, path, want[2])
	got, err := trajectory.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Latencies are all that Canonical leaves out, and making it does not change the record.
func TestCanonical(t *testing.T) {
	a, b := record(1), record(1)
	b.Turns = []trajectory.Turn{b.Turns[0]}
	b.Turns[0].ModelTime, b.Turns[0].ToolTime = 9, 9
	ca, err1 := a.Canonical()
	cb, err2 := b.Canonical()
	if err1 != nil || err2 != nil || !bytes.Equal(ca, cb) {
		t.Errorf("%s\n%s", ca, cb)
	}
	if a.Turns[0].ModelTime != 1.25 {
		t.Error("the record was changed")
	}
	b.Turns[0].Tokens = 1
	if cb, _ = b.Canonical(); bytes.Equal(ca, cb) {
		t.Error("a change of tokens is not seen")
	}
}

// Cut anywhere, the file opens again, keeps every whole record and takes new ones.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	write(t, whole, record(1), record(2))
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(b, '\n') + 1
	for cut := range len(b) + 1 {
		if cut%41 != 0 && cut != first && cut != first-1 && cut < len(b)-1 {
			continue // closing syncs to disk, which takes its time
		}
		path := filepath.Join(dir, "cut.jsonl")
		if err := os.WriteFile(path, b[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		want := 0
		if cut >= first {
			want = first
		}
		if cut == len(b) {
			want = cut
		}
		if cut != want {
			if _, err := trajectory.ReadFile(path); err == nil || !strings.Contains(err.Error(), "torn") {
				t.Fatalf("cut at %d: reading gives %v, want an error about the torn line", cut, err)
			}
		}
		w, err := trajectory.OpenWriter(path)
		if err != nil {
			t.Fatal(err)
		}
		if w.Repaired() != int64(cut-want) {
			t.Fatalf("cut at %d: repaired %d bytes, want %d", cut, w.Repaired(), cut-want)
		}
		if err := errors.Join(w.Write(record(3)), w.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := trajectory.ReadFile(path)
		if n := bytes.Count(b[:want], []byte("\n")) + 1; err != nil || len(got) != n || got[n-1].EpisodeID != "m/t3" {
			t.Fatalf("cut at %d: %d records, %v; want %d", cut, len(got), err, n)
		}
	}
	// A torn line longer than the block that is searched backwards.
	path := filepath.Join(dir, "long.jsonl")
	if err := os.WriteFile(path, append(b[:first:first], bytes.Repeat([]byte("x"), 200_000)...), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := trajectory.OpenWriter(path)
	if err != nil || w.Repaired() != 200_000 {
		t.Fatalf("repaired %d, %v", w.Repaired(), err)
	}
	w.Close()
}

func TestReadErrors(t *testing.T) {
	line, _ := record(1).Line()
	for name, c := range map[string]struct{ text, want string }{
		"damage":        {string(line) + "{\"version\":1,\n", "f:2: not a record"},
		"empty line":    {string(line) + "\n", "f:2: empty line"},
		"newer":         {strings.Replace(string(line), `"version":3`, `"version":99`, 1), "f:1: record of a newer version"},
		"no version":    {"{}\n", "f:1: not a record: no version"},
		"no id":         {"{\"version\":1}\n", "f:1: not a record: no episode_id"},
		"another thing": {"[1]\n", "f:1: not a record"},
	} {
		var last error
		for _, err := range trajectory.Read(strings.NewReader(c.text), "f") {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, last, c.want)
		}
	}
}

func tokens(id string, n int) trajectory.TokenRecord {
	t := trajectory.TokenRecord{EpisodeID: id, PolicyVersion: 7}
	t.Append(-1, math.MaxInt32)
	for i := range n {
		if err := t.AppendSampled([]int32{int32(i)}, []float32{-float32(i) / 3}); err != nil {
			panic(err)
		}
	}
	return t
}

func writeTokens(t *testing.T, path string, ts ...trajectory.TokenRecord) *trajectory.TokenWriter {
	t.Helper()
	w, err := trajectory.OpenTokenWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ts {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTokensRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tok.bin")
	writeTokens(t, path, tokens("a", 3))
	writeTokens(t, path, tokens("b", 0), tokens("a", 5)) // the second record of a is dropped
	got, err := trajectory.LoadTokens(path)
	want := map[string]trajectory.TokenRecord{"a": tokens("a", 3), "b": tokens("b", 0)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestTokensCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.bin")
	writeTokens(t, whole, tokens("a", 3), tokens("b", 2))
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(b) {
		if cut%5 != 0 && cut > 16 {
			continue
		}
		path := filepath.Join(dir, "cut.bin")
		if err := os.WriteFile(path, b[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		writeTokens(t, path, tokens("c", 1))
		got, err := trajectory.LoadTokens(path)
		if err != nil || got["c"].PolicyVersion != 7 || len(got) > 2 {
			t.Fatalf("cut at %d: %d records, %v", cut, len(got), err)
		}
	}
	// Damage before the last record is not a torn end: it must not be cut off silently.
	for _, at := range []int{3, 12, 20} {
		bad := bytes.Clone(b)
		bad[at] ^= 0x40
		path := filepath.Join(dir, "bad.bin")
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := trajectory.OpenTokenWriter(path); err == nil || !strings.Contains(err.Error(), "bad.bin: byte") {
			t.Errorf("byte %d flipped: %v, want an error that names the place", at, err)
		}
	}
}

func TestTokenLengths(t *testing.T) {
	var r trajectory.TokenRecord
	if err := r.AppendSampled([]int32{1, 2}, []float32{0}); err == nil {
		t.Error("two ids and one log-probability were taken")
	}
	w, err := trajectory.OpenTokenWriter(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Write(trajectory.TokenRecord{EpisodeID: "a", IDs: []int32{1}}); err == nil || !strings.Contains(err.Error(), "a: 1 ids, 0 mask") {
		t.Errorf("error %v, want one that counts", err)
	}
}

func FuzzRead(f *testing.F) {
	line, _ := record(1).Line()
	f.Add(line)
	f.Add([]byte("{}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for r, err := range trajectory.Read(bytes.NewReader(b), "f") {
			if err != nil {
				return
			}
			line, err := r.Line()
			if err != nil {
				t.Fatalf("a record that was read cannot be written: %v", err)
			}
			for again, err := range trajectory.Read(bytes.NewReader(line), "g") {
				line2, err2 := again.Line()
				if err != nil || err2 != nil || !bytes.Equal(line, line2) {
					t.Fatalf("%v %v\n%s\n%s", err, err2, line, line2)
				}
			}
		}
	})
}

func FuzzReadTokens(f *testing.F) {
	path := filepath.Join(f.TempDir(), "t")
	w, err := trajectory.OpenTokenWriter(path)
	if err != nil {
		f.Fatal(err)
	}
	w.Write(tokens("a", 3))
	w.Write(tokens("b", 1))
	w.Close()
	b, _ := os.ReadFile(path)
	f.Add(b, true)
	f.Add(b[:20], false)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if sum && len(b) > 16 {
			// Past the checksum: the lengths inside the payload are what is tried.
			if n := binary.LittleEndian.Uint32(b[8:]); int(n) <= len(b)-16 {
				binary.LittleEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:16+n]))
			}
		}
		for r, err := range trajectory.ReadTokens(bytes.NewReader(b), "f") {
			if err == nil && r.Check() != nil {
				t.Fatal(r.Check())
			}
		}
	})
}

// A record of version 1 as it was first written. It must stay readable, and unknown fields of a sibling must not hurt.
const version1 = `{"version":1,"episode_id":"m/t/s1/a0/soft/greedy","suite":"company","split":"test","method":"oracle","model":"-","seed":1,` +
	`"attempt":0,"budget_mode":"soft","decoding":"greedy","temperature":0,"task":{"id":"t","question":"q","gold":["7"],"combination":"sql_query",` +
	`"structure":"A","template":"x","phrasing":"p","difficulty":1,"hops":1,"optimal_cost":1,"budget":1.5},"turns":[{"text":"T","action":{"tool":"sql_query",` +
	`"args":{"query":"q"}},"observation":"7\nleft 0.5","price":1,"model_s":0.1}],"end":"finished","outcome":{"answer":"7","correct":true,"evidenced":true,` +
	`"verified":true,"spend":1,"invalid":0,"failed_calls":0,"truncated":false,"reward":{"total":1,"correct":0.7,"efficiency":0.3,"format":0}},"added_later":[1]}` + "\n"

func TestVersion1StaysReadable(t *testing.T) {
	n := 0
	for tr, err := range trajectory.Read(strings.NewReader(version1), "f") {
		n++
		if err != nil {
			t.Fatal(err)
		}
		turn := tr.Turns[0]
		if tr.Outcome.Spend != price.Of(1) || !tr.Outcome.Verified || !turn.Called() || turn.Invalid() || turn.Observation != "7\nleft 0.5" || tr.Task.Gold[0] != "7" || tr.Outcome.Reward.Total != 1 {
			t.Errorf("%+v", tr)
		}
	}
	if n != 1 {
		t.Errorf("%d records", n)
	}
}

// The published episodes are of version 2 until they are published again.
func TestPublishedEpisodesStayReadable(t *testing.T) {
	for _, suite := range []string{"chain", "company"} {
		trs, err := trajectory.ReadFile(filepath.Join("..", "..", "results", suite, "sample.jsonl"))
		if err != nil || len(trs) < 100 {
			t.Errorf("%s: %d episodes, %v", suite, len(trs), err)
		}
	}
}
