package lm

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"

	"github.com/toolroute/toolroute/pkg/plugin"
)

// Backend is an opened device. The embedded compute.Backend is what GoMLX's own functions take.
type Backend struct {
	compute.Backend
	// Kind is "xla:cuda", "xla:cpu" or "go".
	Kind string
	// Why says in one line why this backend was chosen: the plugin's path, and the place where it was found.
	Why string
}

// Loops reports whether the engine may generate several tokens in a loop on the device. The Go backend lacks the dynamic slices
// that such a loop needs, so there the engine makes one call a token.
func (b *Backend) Loops() bool { return b.Kind != KindGo }

// The kinds of backend, fastest first.
const (
	KindCUDA = plugin.CUDA
	KindCPU  = plugin.CPU
	KindGo   = plugin.Go
)

var opened struct {
	sync.Mutex
	byChoice map[string]*Backend
}

// OpenBackend opens a backend, once per process and choice. Choices:
//
//	auto      GOMLX_BACKEND when set, else xla:cuda when there is a GPU and a plugin, else xla:cpu, else go
//	xla:cuda  only that; an error says how to get the plugin
//	xla:cpu   only that
//	go        GoMLX's Go backend
//
// An empty choice is auto.
func OpenBackend(choice string) (*Backend, error) {
	opened.Lock()
	defer opened.Unlock()
	if choice == "" {
		choice = "auto"
	}
	if b := opened.byChoice[choice]; b != nil {
		return b, nil
	}
	b, err := openBackend(choice)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", choice, err)
	}
	if opened.byChoice == nil {
		opened.byChoice = map[string]*Backend{}
	}
	// "auto" and the kind it resolves to share one client.
	if same := opened.byChoice[b.Kind]; same != nil && choice == "auto" {
		b.Finalize()
		b = same
	}
	opened.byChoice[choice] = b
	if opened.byChoice[b.Kind] == nil {
		opened.byChoice[b.Kind] = b
	}
	return b, nil
}

// CheckBackend reports a GOMLX_BACKEND that names no backend, without opening anything: a run can say so before its first stage.
func CheckBackend() error {
	_, _, err := plugin.Plan("auto")
	return err
}

func openBackend(choice string) (*Backend, error) {
	candidates, failed, err := plugin.Plan(choice)
	if err != nil {
		return nil, err
	}
	for _, t := range candidates {
		b, err := open(t)
		if err == nil {
			if t.Kind == KindGo && len(failed) > 0 {
				b.Why += "; " + strings.Join(failed, "; ")
			}
			return b, nil
		}
		failed = append(failed, err.Error())
	}
	return nil, fmt.Errorf("none could be opened: %s", strings.Join(failed, "; "))
}

func open(t plugin.Candidate) (*Backend, error) {
	out := &Backend{Kind: t.Kind, Why: t.Why}
	err := Catch("open "+t.Config, func() (err error) {
		out.Backend, err = compute.NewWithConfig(t.Config)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Catch runs fn and turns a panic into an error that starts with what. GoMLX panics on bad shapes and failed
// executions; whoever builds graphs outside this package wraps them the same way.
func Catch(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
		case error:
			err = fmt.Errorf("%s: %w", what, r)
		default:
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	return fn()
}
