package tiny

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// What the tiny preset makes of the same texts shows here: its tokenizer, the ids and masks of demonstrations, the rows of copy pre-training and of
// replay. If a change of it is meant, raise Version, and put the new hash beside it.
func TestVersion(t *testing.T) {
	const version, want = 3, "5cb0c2040a41b4124fabb2c3266d220150469c3f131da21a56b7bc67bd6ef281"
	s := &mini.Suite{Seed: 1, Count: 8}
	demos, err := demonstrations(s)
	if err != nil {
		t.Fatal(err)
	}
	played, err := Play(context.Background(), s, demos, episode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	tok, err := tokenizer.TrainTiny(Texts(played), tokenizer.TinyOptions{MaxVocab: 300, MinTexts: 2, Atoms: Atoms})
	if err != nil {
		t.Fatal(err)
	}
	h.Write(tok.JSON())
	c, err := codec(played)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Examples(c, played)
	if err != nil {
		t.Fatal(err)
	}
	out := json.NewEncoder(h)
	shown := []any{rows}
	for _, comparing := range []bool{false, true} {
		cur := curriculum()
		if comparing {
			cur.Before, cur.Above, cur.Yes, cur.No, cur.Dates = 30, 31, 32, 33, true
		}
		for _, step := range []int{0, 50, 200} {
			ids, loss := cur.Batch(step)
			shown = append(shown, ids, loss)
		}
		ids, loss := cur.Replay(2000, 1)
		shown = append(shown, ids, loss)
	}
	for _, x := range shown {
		if err := out.Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); Version != version || got != want {
		t.Errorf("the same texts give other tokens or rows: %s, want %s. If that is meant, raise Version (now %d) and note both here", got, want, Version)
	}
}
