package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolroute/toolroute/pkg/run"
)

// cache keeps the replies that are verdicts, a file each, by the hash of model and prompt. Other replies are asked for again.
type cache struct {
	dir string
	log func(format string, a ...any)
}

// kept is a file of the cache. The prompt stands in it too, so that a person can see what was asked.
type kept struct {
	Model  string `json:"model"`
	System string `json:"system"`
	User   string `json:"user"`
	Reply  string `json:"reply"`
}

func (c cache) path(model string, p prompt) string {
	b, _ := json.Marshal([]string{model, p.system, p.user}) // strings cannot fail
	sum := sha256.Sum256(b)
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json")
}

// get returns a kept reply. A file that is damaged counts for nothing.
func (c cache) get(model string, p prompt) (string, bool) {
	var k kept
	path := c.path(model, p)
	err := run.ReadJSON(path, &k)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil || k.Model != model || k.System != p.system || k.User != p.user:
		c.log("judge: %s is not what was kept there, so the judge is asked again", path)
		return "", false
	}
	return k.Reply, true
}

func (c cache) put(model string, p prompt, reply string) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	return run.WriteJSON(c.path(model, p), kept{model, p.system, p.user, reply})
}
