package train

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// eventFile writes scalars in TensorBoard's format. The file is a list of TensorFlow's tfrecords (little-endian):
//
//	uint64 length, uint32 masked CRC-32C of the length, bytes, uint32 masked CRC-32C of the bytes
//
// The bytes of a record are an Event protocol buffer. Its fields are wall_time = 1 (double), step = 2 (int64), file_version = 3
// (string), summary = 5 and session_log = 7. A Summary repeats field 1, a Value with tag = 1 (string) and simple_value = 2
// (float). A SessionLog has status = 1. The messages are small, so they are encoded here and not by a library.
type eventFile struct {
	f   *os.File
	now func() time.Time
}

// sessionStart is SessionLog.START. It makes TensorBoard drop what earlier files say of this step and later ones: a resumed run
// repeats the steps after its checkpoint.
const sessionStart = 1

// newEventFile creates the file of a run that starts or resumes at a step. File names sort by step.
func newEventFile(dir string, step int, now func() time.Time) (*eventFile, error) {
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.toolroute", step)))
	if err != nil {
		return nil, err
	}
	e := &eventFile{f: f, now: now}
	for _, field := range [][]byte{
		bytesField(nil, 3, []byte("brain.Event:2")),
		bytesField(nil, 7, varintField(nil, 1, sessionStart)),
	} {
		if err := e.event(step, field); err != nil {
			f.Close()
			return nil, err
		}
	}
	return e, nil
}

// scalars writes one event with a value for every metric.
func (e *eventFile) scalars(step int, metrics []Metric) error {
	var summary []byte
	for _, m := range metrics {
		value := bytesField(nil, 1, []byte(m.Name))
		value = binary.AppendUvarint(value, 2<<3|5) // fixed32
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(m.Value)))
		summary = bytesField(summary, 1, value)
	}
	return e.event(step, bytesField(nil, 5, summary))
}

// event writes one Event with the current time, a step and one more encoded field.
func (e *eventFile) event(step int, field []byte) error {
	b := binary.AppendUvarint(nil, 1<<3|1) // fixed64
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(e.now().UnixNano())/1e9))
	b = varintField(b, 2, uint64(step))
	_, err := e.f.Write(record(append(b, field...)))
	return err
}

func (e *eventFile) close() error { return e.f.Close() }

// varintField appends an integer field to b.
func varintField(b []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3), v)
}

// bytesField appends a field of bytes, a string or a message to b.
func bytesField(b []byte, number int, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(number)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// record frames one message as a tfrecord.
func record(b []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	out = binary.LittleEndian.AppendUint32(out, maskedCRC(out))
	out = append(out, b...)
	return binary.LittleEndian.AppendUint32(out, maskedCRC(b))
}

// maskedCRC is the CRC-32C (Castagnoli) rotated right by 15 bits plus a constant, as tfrecords store it.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}
