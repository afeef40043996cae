package trajectory

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"os"
)

// TokenRecord holds the ids of one episode as the model saw and sampled them: prompt, action, observation, action, ... The three
// slices have one length.
type TokenRecord struct {
	EpisodeID     string
	PolicyVersion uint64    // training step of the weights that sampled
	IDs           []int32   // the whole context
	Mask          []bool    // true where the id was sampled: only these carry loss
	LogProbs      []float32 // of sampled ids, at the sampling temperature; 0 elsewhere
}

// Check reports the first thing wrong with the lengths.
func (t TokenRecord) Check() error {
	if len(t.IDs) != len(t.Mask) || len(t.IDs) != len(t.LogProbs) {
		return fmt.Errorf("tokens of %s: %d ids, %d mask values, %d log-probabilities; must be equally many", t.EpisodeID, len(t.IDs), len(t.Mask), len(t.LogProbs))
	}
	return nil
}

// Append adds ids of the context, which were not sampled.
func (t *TokenRecord) Append(context ...int32) {
	for _, id := range context {
		t.IDs, t.Mask, t.LogProbs = append(t.IDs, id), append(t.Mask, false), append(t.LogProbs, 0)
	}
}

// AppendSampled adds sampled ids with their log-probabilities.
func (t *TokenRecord) AppendSampled(ids []int32, logProbs []float32) error {
	if len(ids) != len(logProbs) {
		return fmt.Errorf("tokens of %s: %d sampled ids but %d log-probabilities", t.EpisodeID, len(ids), len(logProbs))
	}
	for i, id := range ids {
		t.IDs, t.Mask, t.LogProbs = append(t.IDs, id), append(t.Mask, true), append(t.LogProbs, logProbs[i])
	}
	return nil
}

// The sidecar file: 8 bytes of magic, then records, little-endian:
//
//	u32 length of the payload, u32 CRC-32 (IEEE) of the payload, payload:
//	u32 length of the id, the id, u64 policy version, u32 n, n x i32 ids, n x u8 mask, n x f32 log-probabilities
const (
	tokensMagic = "TRTOK\x00\x00\x01"
	maxPayload  = 256 << 20
)

// ErrTorn marks a last record that was not written to its end.
var ErrTorn = errors.New("the last record is torn")

// TokenWriter appends to a sidecar file. It is not safe for concurrent use.
type TokenWriter struct {
	f        *os.File
	path     string
	ids      map[string]bool
	repaired int64
}

// OpenTokenWriter opens or creates a sidecar for appending. A torn last record is cut off; damage elsewhere is an error.
func OpenTokenWriter(path string) (*TokenWriter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	w := &TokenWriter{f: f, path: path, ids: map[string]bool{}}
	if err := w.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("tokens: %w", err), f.Close())
	}
	return w, nil
}

func (w *TokenWriter) recover() error {
	size, err := w.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := w.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	good := int64(0)
	r := tokenReader{r: bufio.NewReaderSize(w.f, 256<<10), name: w.path}
	for {
		t, err := r.next()
		if err == nil {
			w.ids[t.EpisodeID] = true
			good = r.pos
			continue
		}
		if err == io.EOF {
			good = r.pos
			break
		}
		if errors.Is(err, ErrTorn) {
			break
		}
		return err
	}
	if good < int64(len(tokensMagic)) {
		good = 0
	}
	w.repaired = size - good
	if err := w.f.Truncate(good); err != nil {
		return err
	}
	if _, err := w.f.Seek(good, io.SeekStart); err != nil {
		return err
	}
	if good == 0 {
		_, err = w.f.WriteString(tokensMagic)
	}
	return err
}

// Repaired is the number of bytes of a torn last record that opening the file cut off.
func (w *TokenWriter) Repaired() int64 { return w.repaired }

// Write appends one record in one write. An episode that the file holds already is left as it is.
func (w *TokenWriter) Write(t TokenRecord) error {
	if err := t.Check(); err != nil {
		return err
	}
	if w.ids[t.EpisodeID] {
		return nil
	}
	n := 4 + len(t.EpisodeID) + 8 + 4 + 9*len(t.IDs)
	if n > maxPayload {
		return fmt.Errorf("tokens of %s: %d bytes, more than a record holds", t.EpisodeID, n)
	}
	b := make([]byte, 8, 8+n)
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(t.EpisodeID)))
	b = append(b, t.EpisodeID...)
	b = le.AppendUint64(b, t.PolicyVersion)
	b = le.AppendUint32(b, uint32(len(t.IDs)))
	for _, id := range t.IDs {
		b = le.AppendUint32(b, uint32(id))
	}
	for _, m := range t.Mask {
		v := byte(0)
		if m {
			v = 1
		}
		b = append(b, v)
	}
	for _, l := range t.LogProbs {
		b = le.AppendUint32(b, math.Float32bits(l))
	}
	le.PutUint32(b[0:], uint32(n))
	le.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	if _, err := w.f.Write(b); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	w.ids[t.EpisodeID] = true
	return nil
}

// Reset empties the file.
func (w *TokenWriter) Reset() error {
	clear(w.ids)
	err := w.f.Truncate(0)
	if err == nil {
		_, err = w.f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = w.f.WriteString(tokensMagic)
	}
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// Close flushes the file to disk and closes it.
func (w *TokenWriter) Close() error {
	if err := errors.Join(w.f.Sync(), w.f.Close()); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// StreamTokens reads a sidecar record by record. An error names the file and the byte at which the record starts; a torn
// last record is one that wraps ErrTorn.
func StreamTokens(path string) iter.Seq2[TokenRecord, error] {
	return func(yield func(TokenRecord, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(TokenRecord{}, fmt.Errorf("tokens: %w", err))
			return
		}
		defer f.Close()
		for t, err := range ReadTokens(f, path) {
			if !yield(t, err) {
				return
			}
		}
	}
}

// ReadTokens is StreamTokens over any reader; name stands in errors.
func ReadTokens(r io.Reader, name string) iter.Seq2[TokenRecord, error] {
	return func(yield func(TokenRecord, error) bool) {
		tr := tokenReader{r: bufio.NewReaderSize(r, 256<<10), name: name}
		for {
			t, err := tr.next()
			if err == io.EOF || !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// LoadTokens returns a sidecar's records by episode id.
func LoadTokens(path string) (map[string]TokenRecord, error) {
	out := map[string]TokenRecord{}
	for t, err := range StreamTokens(path) {
		if err != nil {
			return nil, err
		}
		out[t.EpisodeID] = t
	}
	return out, nil
}

type tokenReader struct {
	r    *bufio.Reader
	name string
	pos  int64 // after the last whole record
}

// next returns io.EOF at a clean end.
func (r *tokenReader) next() (TokenRecord, error) {
	if r.pos == 0 {
		var magic [len(tokensMagic)]byte
		n, err := io.ReadFull(r.r, magic[:])
		switch {
		case err == io.EOF:
			return TokenRecord{}, io.EOF
		case err != nil && string(magic[:n]) == tokensMagic[:n]:
			return TokenRecord{}, r.bad(ErrTorn)
		case err != nil || string(magic[:]) != tokensMagic:
			return TokenRecord{}, r.bad(errors.New("not a token sidecar"))
		}
		r.pos = int64(n)
	}
	var head [8]byte
	if _, err := io.ReadFull(r.r, head[:]); err == io.EOF {
		return TokenRecord{}, io.EOF
	} else if err != nil {
		return TokenRecord{}, r.bad(ErrTorn)
	}
	n := binary.LittleEndian.Uint32(head[0:])
	if n > maxPayload {
		return TokenRecord{}, r.bad(fmt.Errorf("damaged: a record of %d bytes", n))
	}
	// Grows with what is there: a damaged length must not allocate what the file does not hold.
	payload, err := io.ReadAll(io.LimitReader(r.r, int64(n)))
	if err != nil {
		return TokenRecord{}, r.bad(err)
	}
	if len(payload) < int(n) {
		return TokenRecord{}, r.bad(ErrTorn)
	}
	if crc32.ChecksumIEEE(payload) != binary.LittleEndian.Uint32(head[4:]) {
		if _, err := r.r.Peek(1); err == io.EOF {
			return TokenRecord{}, r.bad(ErrTorn) // its blocks did not all reach the disk
		}
		return TokenRecord{}, r.bad(errors.New("damaged: the checksum does not match"))
	}
	t, err := decodeTokens(payload)
	if err != nil {
		return TokenRecord{}, r.bad(err)
	}
	r.pos += 8 + int64(n)
	return t, nil
}

func (r *tokenReader) bad(err error) error { return fmt.Errorf("%s: byte %d: %w", r.name, r.pos, err) }

func decodeTokens(b []byte) (TokenRecord, error) {
	le := binary.LittleEndian
	short := errors.New("damaged: lengths do not add up")
	if len(b) < 4 {
		return TokenRecord{}, short
	}
	id := int64(le.Uint32(b))
	if int64(len(b)) < 4+id+12 {
		return TokenRecord{}, short
	}
	t := TokenRecord{EpisodeID: string(b[4 : 4+id])}
	b = b[4+id:]
	t.PolicyVersion = le.Uint64(b)
	n := int64(le.Uint32(b[8:]))
	if b = b[12:]; int64(len(b)) != 9*n {
		return TokenRecord{}, short
	}
	t.IDs, t.Mask, t.LogProbs = make([]int32, n), make([]bool, n), make([]float32, n)
	for i := range t.IDs {
		t.IDs[i] = int32(le.Uint32(b[4*i:]))
		t.Mask[i] = b[4*n+int64(i)] == 1
		t.LogProbs[i] = math.Float32frombits(le.Uint32(b[5*n+4*int64(i):]))
	}
	return t, nil
}
