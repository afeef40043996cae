package tiny

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func demonstrations(s suite.Suite) ([]suite.Demonstration, error) {
	return s.Demonstrations(context.Background(), "optimal", 1)
}

// codec is one whose tokenizer was trained on the demonstrations.
func codec(played []Played) (*chat.Codec, error) {
	tok, err := tokenizer.TrainTiny(Texts(played), tokenizer.TinyOptions{MinTexts: 2, Atoms: []string{"```json\n{\"tool\": \"", "\", \"args\": {\"", "\": \"", "\"}}\n```"}})
	if err != nil {
		return nil, err
	}
	return chat.NewTinyCodec(tok)
}

// The gold path of a task, played against its tools, becomes a row to train on: loss on the actions alone.
func ExampleExamples() {
	s := &mini.Suite{Count: 8}
	demos, err := demonstrations(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	played, err := Play(context.Background(), s, demos, episode.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := codec(played)
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := Examples(c, played)
	if err != nil {
		fmt.Println(err)
		return
	}
	var read, trained []int32
	for i, id := range rows[0].IDs {
		if rows[0].Mask[i] == 1 {
			trained = append(trained, id)
		} else {
			read = append(read, id)
		}
	}
	fmt.Println(c.Tokenizer().Decode(read, false))
	fmt.Println("trained on:")
	fmt.Println(c.Tokenizer().Decode(trained, false))
	// Output:
	// <|user|>stock of bolts
	// budget 1.5<|im_end|><|assistant|><|im_end|><|tool|>bolts: 909 on the shelf
	// left 0.5<|im_end|><|assistant|>
	// trained on:
	// ```json
	// {"tool": "stock", "args": {"item": "bolts"}}
	// ``````json
	// {"tool": "finish", "args": {"answer": "909"}}
	// ```
}

// The observations of a demonstration are those of the real tools, and its row is what a rollout that samples the same
// actions has: ids and mask are the codec's for prompt, actions and observations, and generation would stop after each.
func TestExamplesAreTheEpisode(t *testing.T) {
	s := &mini.Suite{Count: 24}
	demos, err := demonstrations(s)
	if err != nil {
		t.Fatal(err)
	}
	played, err := Play(t.Context(), s, demos, episode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec(played)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Examples(c, played)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(demos) {
		t.Fatalf("%d rows of %d demonstrations", len(rows), len(demos))
	}
	for i, row := range rows {
		tr := played[i].Trajectory
		if !tr.Outcome.Verified || len(tr.Turns) != len(demos[i].Calls) || tr.Task.ID != demos[i].Task.ID || played[i].Prompt.User == "" {
			t.Fatalf("%s: %+v", row.ID, tr)
		}
		if err := row.Check(); err != nil {
			t.Error(err)
		}
		want, err := c.Prompt(played[i].Prompt.System, played[i].Prompt.User)
		if err != nil {
			t.Fatal(err)
		}
		mask := make([]uint8, len(want))
		for j, turn := range tr.Turns {
			said, err := c.Action(turn.Text)
			if err != nil {
				t.Fatal(err)
			}
			if at := slices.IndexFunc(said, c.IsStop); at != len(said)-1 {
				t.Errorf("%s turn %d: the first stop id is at %d of %d", row.ID, j, at, len(said))
			}
			want, mask = append(want, said...), append(mask, slices.Repeat([]uint8{1}, len(said))...)
			if j < len(tr.Turns)-1 {
				obs := c.Observation(turn.Observation, said[len(said)-1])
				want, mask = append(want, obs...), append(mask, make([]uint8, len(obs))...)
			}
		}
		if !slices.Equal(row.IDs, want) || !slices.Equal(row.Mask, mask) {
			t.Errorf("%s: ids\n%v\nwant\n%v\nmask\n%v\nwant\n%v", row.ID, row.IDs, want, row.Mask, mask)
		}
	}
}

// A budget never stops a demonstration, and its text is all that a tokenizer is trained on.
func TestPlayKeepsWholeDemonstrations(t *testing.T) {
	s := &mini.Suite{Count: 3}
	demos, err := demonstrations(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range demos {
		demos[i].Calls = slices.Concat(slices.Repeat(demos[i].Calls[:1], 3), demos[i].Calls) // too often: over the budget
	}
	played, err := Play(t.Context(), s, demos, episode.Config{Budget: episode.Hard})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range played {
		if o := p.Trajectory.Outcome; p.Trajectory.End != trajectory.Finished || !o.Verified || o.Spend <= p.Trajectory.Task.Budget {
			t.Errorf("%s: end %s, %+v", p.Trajectory.Task.ID, p.Trajectory.End, o)
		}
	}
	played[0].Prompt.System = "rules"
	texts := Texts(played[:1])
	want := []string{"rules", played[0].Prompt.User}
	for _, turn := range played[0].Trajectory.Turns {
		want = append(want, turn.Text)
		if turn.Observation != "" {
			want = append(want, turn.Observation)
		}
	}
	if !slices.Equal(texts, want) {
		t.Errorf("texts %q, want %q", texts, want)
	}
	demos[1].Task.Offers = []suite.Offer{{Tool: "nothing"}}
	if _, err := Play(t.Context(), s, demos, episode.Config{}); err == nil || !strings.Contains(err.Error(), "play demonstrations") {
		t.Errorf("error %v, want one that says what was done", err)
	}
	played[0].Trajectory.Turns[0].Text = ""
	c, err := codec(played)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Examples(c, played); err == nil || !strings.Contains(err.Error(), played[0].Trajectory.Task.ID) {
		t.Errorf("error %v, want one that names the task", err)
	}
	played[0].Trajectory.Turns[0].Text = episode.Format("", "stock", json.RawMessage(`{"item":"bolts"}`)) + "\nObservation: 42"
	if _, err := Examples(c, played); err == nil || !strings.Contains(err.Error(), "stop inside") {
		t.Errorf("an action with an invented observation: error %v", err)
	}
}
