// Package rng derives independent random streams from one seed. A stream is keyed by (seed, purpose, item...). So neither the
// order of items nor the number of workers changes a result. There is no global generator.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// New returns the stream of one purpose and item. Keys are printed with %v and length-prefixed, so ("ab","c") and
// ("a","bc") differ. The stream is ChaCha8, whose output is fixed by the Go compatibility promise.
func New(seed uint64, purpose string, item ...any) *rand.Rand {
	return rand.New(rand.NewChaCha8(key(seed, purpose, item)))
}

// Seed64 returns 64 bits of the stream's key: a seed for generators that live elsewhere (a device, a child process).
func Seed64(seed uint64, purpose string, item ...any) uint64 {
	k := key(seed, purpose, item)
	return binary.LittleEndian.Uint64(k[:8])
}

func key(seed uint64, purpose string, item []any) [32]byte {
	h := sha256.New()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	write := func(s string) {
		binary.LittleEndian.PutUint64(b[:], uint64(len(s)))
		h.Write(b[:])
		h.Write([]byte(s))
	}
	write(purpose)
	for _, it := range item {
		write(fmt.Sprint(it))
	}
	return [32]byte(h.Sum(nil))
}
