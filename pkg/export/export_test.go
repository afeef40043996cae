package export

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/run"
)

func episode(actions ...string) Episode {
	turns := make([]chat.Exchange, len(actions))
	for i, a := range actions {
		turns[i] = chat.Exchange{Action: a, Observation: "saw <" + a + "> & more"}
	}
	return Episode{TaskID: "t1", Cost: 0.034, Messages: chat.Conversation("Be brief.", "question: é?", turns)}
}

// Both formats hold the same rows, byte for byte the same on a second run.
func TestFormatsHoldTheRows(t *testing.T) {
	rows := Demonstrations([]Episode{episode("look", "finish"), episode("finish")})
	want := []Message{{"system", "Be brief."}, {"user", "question: é?"}, {"assistant", "look"}, {"tool", "saw <look> & more"}, {"assistant", "finish"}}
	if !reflect.DeepEqual(rows[0].Messages, want) {
		t.Fatalf("%v, want %v", rows[0].Messages, want)
	}
	a, b := t.TempDir(), t.TempDir()
	for _, format := range Formats() {
		for _, dir := range []string{a, b} {
			if _, err := Write(dir, "demonstrations", format, rows); err != nil {
				t.Fatal(err)
			}
		}
		x, _ := os.ReadFile(filepath.Join(a, "demonstrations."+format))
		if y, _ := os.ReadFile(filepath.Join(b, "demonstrations."+format)); len(x) == 0 || !bytes.Equal(x, y) {
			t.Errorf("%s differs on a second run", format)
		}
	}
	text, _ := os.ReadFile(filepath.Join(a, "demonstrations.jsonl"))
	if !strings.Contains(string(text), `{"role":"tool","content":"saw <look> & more"}`) || strings.Count(string(text), "\n") != 2 {
		t.Errorf("JSON lines:\n%s", text)
	}
	read, err := parquet.ReadFile[DemonstrationRow](filepath.Join(a, "demonstrations.parquet"))
	if err != nil || !reflect.DeepEqual(read, rows) {
		t.Errorf("Parquet holds %v, %v; want %v", read, err, rows)
	}
	if _, err := Write(a, "demonstrations", "csv", rows); err == nil || !strings.Contains(err.Error(), "jsonl") {
		t.Errorf("an unknown format: %v", err)
	}
}

// A preference's prompt ends where the paths part, and each side is one action.
func TestPreferencesPartAtAnAction(t *testing.T) {
	got, err := Preferences([]Episode{episode("look", "cheap", "finish")}, []Episode{episode("look", "dear", "more", "finish")})
	if err != nil {
		t.Fatal(err)
	}
	p := got[0]
	if len(p.Prompt) != 4 || p.Prompt[3].Role != "tool" || !reflect.DeepEqual(p.Chosen, []Message{{"assistant", "cheap"}}) || !reflect.DeepEqual(p.Rejected, []Message{{"assistant", "dear"}}) {
		t.Errorf("%+v", p)
	}
	for name, other := range map[string]Episode{"equal": episode("look", "cheap"), "a start": episode("look")} {
		if _, err := Preferences([]Episode{episode("look", "cheap")}, []Episode{other}); err == nil || !strings.Contains(err.Error(), "task t1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Preferences([]Episode{episode("a")}, nil); err == nil {
		t.Error("another number of rejected paths is taken")
	}
}

// A folder with anything but an export is left alone.
func TestCheckFolder(t *testing.T) {
	dir := t.TempDir()
	if err := CheckFolder(dir); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	if err := CheckFolder(filepath.Join(dir, "new")); err != nil {
		t.Errorf("a new folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckFolder(dir); err == nil || !strings.Contains(err.Error(), "no export") {
		t.Errorf("a folder of others: %v", err)
	}
	if err := run.WriteJSON(filepath.Join(dir, ManifestFile), Manifest{Files: []ExportedFile{{Name: "tasks.jsonl"}}}); err != nil {
		t.Fatal(err)
	}
	if err := CheckFolder(dir); err != nil {
		t.Errorf("an earlier export: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckFolder(dir); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("a file of others beside an export: %v", err)
	}
}
