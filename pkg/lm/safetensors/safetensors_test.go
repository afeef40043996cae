package safetensors

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func Example() {
	dir, _ := os.MkdirTemp("", "st")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "w.safetensors")
	if err := WriteFile(path, []Tensor{{Name: "w", Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}}}, nil); err != nil {
		fmt.Println(err)
		return
	}
	f, err := Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	data, shape, err := f.Float32("w")
	fmt.Println(data, shape, err)
	// Output: [1 2 3 4] [2 2] <nil>
}

func file(t *testing.T, header string, data []byte) string {
	t.Helper()
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(append(b, header...), data...)
	p := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHeaderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		data   int
		want   string
	}{
		"not json":       {"hello", 0, "header"},
		"array":          {"[]", 0, "want a JSON object"},
		"cut":            {`{"a":{"dtype":"F32"`, 0, "unexpected"},
		"duplicate":      {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8, `duplicate key "a"`},
		"duplicate in":   {`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4, `duplicate key "dtype"`},
		"unknown dtype":  {`{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, 1, "unknown dtype"},
		"unknown key":    {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, 4, `unknown key "x"`},
		"no shape":       {`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, `no "shape"`},
		"negative":       {`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4, "negative dimension"},
		"overflow":       {`{"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,4]}}`, 4, "overflows"},
		"wrong size":     {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4, "takes 8 bytes"},
		"out of range":   {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4, "outside the data section"},
		"backwards":      {`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, 4, "no byte range"},
		"overlap":        {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12, "overlap"},
		"hole":           {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8, "unused bytes"},
		"rest":           {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 8, "after the last tensor"},
		"text after":     {`{} x`, 0, "after the header"},
		"metadata":       {`{"__metadata__":{"a":1}}`, 0, "__metadata__"},
		"float dims":     {`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4, "shape"},
		"offsets missed": {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, 4, "no byte range"},
	} {
		t.Run(name, func(t *testing.T) {
			p := file(t, c.header, make([]byte, c.data))
			_, err := Open(p)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), p) {
				t.Errorf("error %v, want one with %q and the file's name", err, c.want)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	p := filepath.Join(t.TempDir(), "t.safetensors")
	for _, b := range [][]byte{nil, {1, 2, 3}, binary.LittleEndian.AppendUint64(nil, 10), binary.LittleEndian.AppendUint64(nil, 1<<40)} {
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(p); err == nil || !strings.Contains(err.Error(), "header") {
			t.Errorf("%d bytes: error %v, want one about the header", len(b), err)
		}
	}
}

func TestNarrowTypes(t *testing.T) {
	u16 := func(v ...uint16) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
		return b
	}
	halves := []uint16{0x0000, 0x8000, 0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00, 0xfc00, 0x3555}
	wantH := []float32{0, float32(math.Copysign(0, -1)), 1, -2, 0x1p-24, 1023 * 0x1p-24, 65504, float32(math.Inf(1)), float32(math.Inf(-1)), 0.33325195}
	brains := []uint16{0x3f80, 0xc049}
	wantB := []float32{1, -3.140625}
	p := file(t, `{"h":{"dtype":"F16","shape":[10],"data_offsets":[0,20]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]}}`, append(u16(halves...), u16(brains...)...))
	f, err := Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string][]float32{"h": wantH, "b": wantB} {
		got, _, err := f.Float32(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Errorf("%s[%d] = %v, want %v", name, i, got[i], want[i])
			}
		}
	}
	if _, _, err := f.Float32("absent"); err == nil || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("missing tensor: error %v", err)
	}
	if _, _, err := f.Int64("h"); err == nil {
		t.Error("floats read as integers")
	}
}

func TestWriteErrors(t *testing.T) {
	p := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WriteFile(p, []Tensor{{"a", []int{2}, []float32{1}}}, nil); err == nil {
		t.Error("shape and data disagree: no error")
	}
	if err := WriteFile(p, []Tensor{{"a", []int{1}, []float32{1}}, {"a", []int{1}, []float32{1}}}, nil); err == nil {
		t.Error("duplicate name: no error")
	}
	if left, _ := fs.Glob(os.DirFS(filepath.Dir(p)), "*"); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`), int64(8))
	f.Add([]byte(`{"a":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]}}`), int64(0))
	f.Fuzz(func(t *testing.T, header []byte, dataSize int64) {
		infos, _, err := ParseHeader(header, dataSize)
		if err != nil {
			return
		}
		at := int64(0)
		for _, in := range infos { // what is accepted covers the data exactly
			if in.Begin != at || in.End < in.Begin || in.End-in.Begin != int64(in.Size())*dtypeSize[in.DType] {
				t.Fatalf("accepted a bad range: %+v", in)
			}
			at = in.End
		}
		if at != dataSize {
			t.Fatalf("accepted %d bytes of %d", at, dataSize)
		}
	})
}
