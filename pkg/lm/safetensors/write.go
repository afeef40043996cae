package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/toolroute/toolroute/pkg/wholefile"
)

// Tensor is a named float32 tensor, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// WriteFile writes tensors as F32, in name order so that the same content gives the same bytes. A reader never sees half a
// file. meta may be nil; PyTorch's readers expect {"format": "pt"}.
func WriteFile(path string, tensors []Tensor, meta map[string]string) error {
	ts := append([]Tensor(nil), tensors...)
	sort.SliceStable(ts, func(i, j int) bool { return ts[i].Name < ts[j].Name })
	header, err := header(ts, meta)
	if err != nil {
		return fmt.Errorf("safetensors: write %s: %w", path, err)
	}
	if err := wholefile.Stream(path, func(w io.Writer) error { return write(w, header, ts) }); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

func header(ts []Tensor, meta map[string]string) ([]byte, error) {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	entries := map[string]any{}
	if len(meta) > 0 {
		entries["__metadata__"] = meta
	}
	at := int64(0)
	for _, t := range ts {
		if _, dup := entries[t.Name]; dup {
			return nil, fmt.Errorf("two tensors named %q", t.Name)
		}
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		if n != len(t.Data) {
			return nil, fmt.Errorf("tensor %q: shape %v has %d elements, data %d", t.Name, t.Shape, n, len(t.Data))
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		end := at + 4*int64(n)
		entries[t.Name] = entry{"F32", shape, [2]int64{at, end}}
		at = end
	}
	b, err := json.Marshal(entries) // keys sorted
	if err != nil {
		return nil, err
	}
	for len(b)%8 != 0 { // the format aligns the data to 8 bytes with spaces
		b = append(b, ' ')
	}
	return b, nil
}

func write(w io.Writer, header []byte, ts []Tensor) error {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(header)))
	if _, err := w.Write(n[:]); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	buf := make([]byte, 4<<10)
	for _, t := range ts {
		for data := t.Data; len(data) > 0; {
			k := min(len(data), len(buf)/4)
			for i, v := range data[:k] {
				binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(v))
			}
			if _, err := w.Write(buf[:4*k]); err != nil {
				return err
			}
			data = data[k:]
		}
	}
	return nil
}
