// Package safetensors reads and writes the safetensors format: an 8-byte little-endian header length, a JSON header
// that gives dtype, shape and byte range of every tensor, then the bytes, row-major and little-endian. Its errors say which
// file and which tensor is wrong, and how. F32, F16 and BF16 are widened to float32; I64, I32 and U8 are read as integers. It
// does not map files into memory and knows nothing of models.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"
)

// maxHeader is the format's own limit on the header's length.
const maxHeader = 100 << 20

// dtypeSize gives the bytes of one element of each dtype that this package can hold.
var dtypeSize = map[string]int64{"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1}

// Info is one entry of the header. Begin and End are byte offsets from the end of the header.
type Info struct {
	Name       string
	DType      string
	Shape      []int
	Begin, End int64
}

// Size is the number of elements.
func (in Info) Size() int {
	n := 1
	for _, d := range in.Shape {
		n *= d
	}
	return n
}

// ParseHeader parses the JSON header of a file whose data section has dataSize bytes. It returns the entries ordered by
// offset, and the string metadata. Errors: JSON that is no object, a duplicate or unknown key, an unknown dtype, a
// negative or overflowing shape, a byte range that lies outside the data, overlaps another, leaves a hole or does not
// fit dtype and shape.
func ParseHeader(header []byte, dataSize int64) ([]Info, map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	var infos []Info
	var meta map[string]string
	seen := map[string]bool{}
	err := object(dec, "header", func(name string) error {
		if seen[name] {
			return fmt.Errorf("duplicate key %q", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			meta = map[string]string{}
			return object(dec, name, func(k string) error {
				if _, dup := meta[k]; dup {
					return fmt.Errorf("duplicate key %q in __metadata__", k)
				}
				var v string
				if err := dec.Decode(&v); err != nil {
					return fmt.Errorf("__metadata__ %q: %w", k, err)
				}
				meta[k] = v
				return nil
			})
		}
		in, err := parseEntry(dec, name)
		if err != nil {
			return err
		}
		infos = append(infos, in)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	// The header may be padded with spaces, nothing else.
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("text after the header's closing brace")
	}
	sort.SliceStable(infos, func(i, j int) bool {
		if infos[i].Begin != infos[j].Begin {
			return infos[i].Begin < infos[j].Begin
		}
		return infos[i].End < infos[j].End
	})
	at := int64(0)
	for _, in := range infos {
		switch {
		case in.End > dataSize:
			return nil, nil, fmt.Errorf("tensor %q: bytes %d to %d lie outside the data section of %d bytes (file truncated?)", in.Name, in.Begin, in.End, dataSize)
		case in.Begin < at:
			return nil, nil, fmt.Errorf("tensor %q: bytes %d to %d overlap the tensor before it", in.Name, in.Begin, in.End)
		case in.Begin > at:
			return nil, nil, fmt.Errorf("tensor %q: %d unused bytes before it", in.Name, in.Begin-at)
		}
		at = in.End
	}
	if at != dataSize {
		return nil, nil, fmt.Errorf("%d bytes after the last tensor", dataSize-at)
	}
	return infos, meta, nil
}

// object walks one JSON object and calls each with every key; each must consume the key's value.
func object(dec *json.Decoder, what string, each func(key string) error) error {
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", what, unexpected(err))
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("%s: want a JSON object, got %v", what, tok)
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", what, unexpected(err))
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("%s: want a key, got %v", what, tok)
		}
		if err := each(key); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%s: %w", what, unexpected(err))
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parseEntry(dec *json.Decoder, name string) (Info, error) {
	in := Info{Name: name}
	var offsets []int64
	seen := map[string]bool{}
	err := object(dec, fmt.Sprintf("tensor %q", name), func(k string) error {
		if seen[k] {
			return fmt.Errorf("tensor %q: duplicate key %q", name, k)
		}
		seen[k] = true
		var v any
		switch k {
		case "dtype":
			v = &in.DType
		case "shape":
			v = &in.Shape
		case "data_offsets":
			v = &offsets
		default:
			return fmt.Errorf("tensor %q: unknown key %q", name, k)
		}
		if err := dec.Decode(v); err != nil {
			return fmt.Errorf("tensor %q: %s: %w", name, k, err)
		}
		return nil
	})
	if err != nil {
		return in, err
	}
	for _, k := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[k] {
			return in, fmt.Errorf("tensor %q: no %q", name, k)
		}
	}
	size, ok := dtypeSize[in.DType]
	if !ok {
		return in, fmt.Errorf("tensor %q: unknown dtype %q (read are F32, F16, BF16, I64, I32, U8)", name, in.DType)
	}
	if len(offsets) != 2 || offsets[0] < 0 || offsets[1] < offsets[0] {
		return in, fmt.Errorf("tensor %q: data_offsets %v are no byte range", name, offsets)
	}
	in.Begin, in.End = offsets[0], offsets[1]
	for _, d := range in.Shape {
		if d < 0 {
			return in, fmt.Errorf("tensor %q: negative dimension in shape %v", name, in.Shape)
		}
		if d > 0 && size > math.MaxInt64/int64(d) {
			return in, fmt.Errorf("tensor %q: shape %v overflows", name, in.Shape)
		}
		size *= int64(d)
	}
	if in.End-in.Begin != size {
		return in, fmt.Errorf("tensor %q: %s%v takes %d bytes, data_offsets give %d", name, in.DType, in.Shape, size, in.End-in.Begin)
	}
	return in, nil
}

// File is an open safetensors file. Close it after use.
type File struct {
	path  string
	f     *os.File
	start int64
	infos []Info
	index map[string]int
	meta  map[string]string
}

// Open reads and checks the header of a file. Errors name the file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	file, err := open(path, f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("safetensors %s: %w", path, err)
	}
	return file, nil
}

func open(path string, f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b [8]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		return nil, errors.New("truncated header: the file has fewer than 8 bytes")
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > maxHeader {
		return nil, fmt.Errorf("header length %d is over the format's limit of %d (not a safetensors file?)", n, maxHeader)
	}
	if int64(n) > st.Size()-8 {
		return nil, fmt.Errorf("truncated header: %d bytes announced, %d present", n, st.Size()-8)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, fmt.Errorf("truncated header: %w", err)
	}
	file := &File{path: path, f: f, start: 8 + int64(n), index: map[string]int{}}
	if file.infos, file.meta, err = ParseHeader(head, st.Size()-file.start); err != nil {
		return nil, err
	}
	for i, in := range file.infos {
		file.index[in.Name] = i
	}
	return file, nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Infos lists the tensors in file order.
func (f *File) Infos() []Info { return slices.Clone(f.infos) }

// Metadata returns the header's string metadata, nil when it has none.
func (f *File) Metadata() map[string]string { return f.meta }

// Info finds one tensor's header entry.
func (f *File) Info(name string) (Info, bool) {
	i, ok := f.index[name]
	if !ok {
		return Info{}, false
	}
	return f.infos[i], true
}

// Raw reads a tensor's bytes as stored.
func (f *File) Raw(name string) ([]byte, Info, error) {
	in, ok := f.Info(name)
	if !ok {
		return nil, in, fmt.Errorf("safetensors %s: no tensor %q", f.path, name)
	}
	b := make([]byte, in.End-in.Begin)
	if _, err := f.f.ReadAt(b, f.start+in.Begin); err != nil {
		return nil, in, fmt.Errorf("safetensors %s: tensor %q: %w", f.path, name, err)
	}
	return b, in, nil
}

// Float32 reads a floating-point tensor, widened to float32 (exactly: F16 and BF16 are subsets of F32).
func (f *File) Float32(name string) ([]float32, []int, error) {
	b, in, err := f.Raw(name)
	if err != nil {
		return nil, nil, err
	}
	out := make([]float32, in.Size())
	switch in.DType {
	case "F32":
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case "BF16":
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	case "F16":
		for i := range out {
			out[i] = halfToFloat(binary.LittleEndian.Uint16(b[2*i:]))
		}
	default:
		return nil, nil, fmt.Errorf("safetensors %s: tensor %q is %s, want F32, F16 or BF16", f.path, name, in.DType)
	}
	return out, in.Shape, nil
}

// CheckFinite names the first value that is no finite number, by the tensor and its index along each axis.
func (t Tensor) CheckFinite() error {
	for i, v := range t.Data {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			at := make([]int, len(t.Shape))
			for a := len(at) - 1; a >= 0; a-- {
				at[a], i = i%t.Shape[a], i/t.Shape[a]
			}
			return fmt.Errorf("tensor %q has the value %v at %v", t.Name, v, at)
		}
	}
	return nil
}

// Int64 reads an integer tensor (I64, I32 or U8).
func (f *File) Int64(name string) ([]int64, []int, error) {
	b, in, err := f.Raw(name)
	if err != nil {
		return nil, nil, err
	}
	out := make([]int64, in.Size())
	switch in.DType {
	case "I64":
		for i := range out {
			out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	case "I32":
		for i := range out {
			out[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case "U8":
		for i := range out {
			out[i] = int64(b[i])
		}
	default:
		return nil, nil, fmt.Errorf("safetensors %s: tensor %q is %s, want I64, I32 or U8", f.path, name, in.DType)
	}
	return out, in.Shape, nil
}

// halfToFloat widens IEEE 754 binary16.
func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exp == 31: // Inf, NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp == 0: // zero and subnormals: frac * 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		if sign != 0 {
			return -v
		}
		return v
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
