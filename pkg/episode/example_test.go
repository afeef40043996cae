package episode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
)

func ExampleParse() {
	act, err := episode.Parse("Let me look.\n```json\n{\"tool\": \"stock\", \"args\": {\"item\": \"bolts\"}}\n```")
	fmt.Println(act.Tool, string(act.Args), err == nil)
	_, err = episode.Parse("```json\n{\"Tool\": \"stock\", \"args\": {}}\n```")
	fmt.Println(err)
	// Output:
	// stock {"item":"bolts"} true
	// key_case: the key is tool, not Tool
}

func ExampleFormat() {
	fmt.Println(episode.Format("", "stock", json.RawMessage(`{"item":"bolts","shelves":[1,2]}`)))
	// Output:
	// ```json
	// {"tool": "stock", "args": {"item": "bolts", "shelves": [1, 2]}}
	// ```
}

func ExampleEpisode_Step() {
	s := &mini.Suite{Seed: 1, Count: 1}
	tasks, err := s.Tasks("train")
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := episode.New(s, tasks[0], episode.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	obs, done := e.Step(context.Background(), policy.Reply{Text: episode.Format("", "stock", json.RawMessage(`{"item":"anvils"}`))})
	fmt.Println(obs.Text, done)
	// Output:
	// error: no such item
	// left 0.5 false
}

func FuzzParse(f *testing.F) {
	for _, r := range table {
		if len(r.text) < 2_000 {
			f.Add(r.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		act, bad := episode.Parse(text)
		end, ended := episode.End(text)
		if bad == nil {
			if !ended {
				t.Fatalf("accepted without an end")
			}
			again, bad := episode.Parse(text[:end])
			if bad != nil || again.Tool != act.Tool || string(again.Args) != string(act.Args) {
				t.Fatalf("cut at its end it reads %v, %v", again, bad)
			}
			if _, err := episode.DecodeArgs(act.Args); err != nil {
				t.Fatalf("args %s: %v", act.Args, err)
			}
			back, bad := episode.Parse(episode.Format(act.Thought, act.Tool, act.Args))
			if bad != nil || back.Thought != act.Thought || back.Tool != act.Tool || string(back.Args) != string(act.Args) {
				t.Fatalf("written again it reads %+v, %v; want %+v", back, bad, act)
			}
			if _, bad := episode.Parse(text + "x"); bad == nil {
				t.Fatal("text after the block was accepted")
			}
			// The verdict of encoding/json where it is no laxer.
			if !json.Valid(act.Args) {
				t.Fatalf("args %s are not JSON", act.Args)
			}
		}
		if ended {
			for _, cut := range []int{end / 2, end - 1} {
				if at, ok := episode.End(text[:max(cut, 0)]); ok && at < end {
					t.Fatalf("ends at %d, but cut at %d at %d", end, cut, at)
				}
			}
		}
	})
}
