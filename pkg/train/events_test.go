package train

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
	"time"
)

// event is what readEvents decodes of one record.
type event struct {
	wall    float64
	step    int
	version string
	session bool
	scalars map[string]float32
}

// readEvents decodes an event file from the format's description, independently of the writer, checking every CRC.
func readEvents(t *testing.T, path string) []event {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []event
	for len(b) > 0 {
		n := int(binary.LittleEndian.Uint64(b))
		if got, want := binary.LittleEndian.Uint32(b[8:]), slowMaskedCRC(b[:8]); got != want {
			t.Fatalf("record %d: CRC of the length %08x, want %08x", len(out), got, want)
		}
		data := b[12 : 12+n]
		if got, want := binary.LittleEndian.Uint32(b[12+n:]), slowMaskedCRC(data); got != want {
			t.Fatalf("record %d: CRC %08x, want %08x", len(out), got, want)
		}
		b = b[16+n:]
		var e event
		for _, f := range fields(t, data) {
			switch f.number {
			case 1:
				e.wall = math.Float64frombits(f.value)
			case 2:
				e.step = int(f.value)
			case 3:
				e.version = string(f.bytes)
			case 5:
				e.scalars = map[string]float32{}
				for _, v := range fields(t, f.bytes) {
					var tag string
					var x float32
					for _, p := range fields(t, v.bytes) {
						switch p.number {
						case 1:
							tag = string(p.bytes)
						case 2:
							x = math.Float32frombits(uint32(p.value))
						}
					}
					e.scalars[tag] = x
				}
			case 7:
				for _, v := range fields(t, f.bytes) {
					e.session = v.number == 1 && v.value == 1
				}
			default:
				t.Errorf("unexpected field %d", f.number)
			}
		}
		out = append(out, e)
	}
	return out
}

type field struct {
	number int
	value  uint64
	bytes  []byte
}

func fields(t *testing.T, b []byte) []field {
	t.Helper()
	var out []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		f := field{number: int(key >> 3)}
		switch key & 7 {
		case 0:
			f.value, n = binary.Uvarint(b)
			b = b[n:]
		case 1:
			f.value, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			f.bytes, b = b[n:n+int(size)], b[n+int(size):]
		case 5:
			f.value, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		default:
			t.Fatalf("wire type %d", key&7)
		}
		out = append(out, f)
	}
	return out
}

// slowMaskedCRC computes CRC-32C bit by bit (reflected polynomial 0x82f63b78) and masks it.
func slowMaskedCRC(b []byte) uint32 {
	crc := ^uint32(0)
	for _, x := range b {
		crc ^= uint32(x)
		for range 8 {
			bit := crc & 1
			crc >>= 1
			if bit == 1 {
				crc ^= 0x82f63b78
			}
		}
	}
	crc = ^crc
	return (crc>>15 | crc<<17) + 0xa282ead8
}

func TestCRC32C(t *testing.T) {
	// The check value of CRC-32C over "123456789" is e3069283 (RFC 3720 uses the same polynomial).
	crc := uint32(0xe3069283)
	want := (crc>>15 | crc<<17) + 0xa282ead8
	if got := maskedCRC([]byte("123456789")); got != want {
		t.Errorf("maskedCRC = %08x, want %08x", got, want)
	}
	if got := slowMaskedCRC([]byte("123456789")); got != want {
		t.Errorf("slowMaskedCRC = %08x, want %08x", got, want)
	}
}

func TestEventFile(t *testing.T) {
	dir := t.TempDir()
	e, err := newEventFile(dir, 300, func() time.Time { return time.Unix(12, 500e6) })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.scalars(301, []Metric{{"loss", 0.5}, {"val/loss", -2}}); err != nil {
		t.Fatal(err)
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	got := readEvents(t, dir+"/events.out.tfevents.0000000300.toolroute")
	if len(got) != 3 || got[0].version != "brain.Event:2" || !got[1].session || got[1].step != 300 {
		t.Fatalf("events %+v", got)
	}
	last := got[2]
	if last.step != 301 || last.wall != 12.5 || last.scalars["loss"] != 0.5 || last.scalars["val/loss"] != -2 || len(last.scalars) != 2 {
		t.Errorf("scalars %+v", last)
	}
}
