package evidence

import (
	"encoding/binary"
	"errors"
)

// AppendChanges appends what changed since the last call, as [Each] reads it. What it returned counts as stored: the caller keeps it until it is.
func (l *Ledger) AppendChanges(dst []byte) []byte {
	_ = l.Changes(func(k Key, value []byte) error {
		dst = appendRecord(dst, k, value)
		return nil
	})
	return dst
}

func appendRecord(dst []byte, k Key, value []byte) []byte {
	dst = append(dst, byte(k.Kind))
	dst = binary.AppendVarint(dst, int64(k.Hour))
	dst = append(binary.AppendUvarint(dst, uint64(len(k.Name))), k.Name...)
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

var errCut = errors.New("records of the ledger of evidence are cut")

// Each calls f for each of the records, one behind the other, that [Ledger.AppendChanges] wrote, until it returns an error, which is returned. The
// value is part of the records.
func Each(records []byte, f func(Key, []byte) error) error {
	for len(records) > 0 {
		d := decoder{rest: records}
		k := Key{Kind: Kind(d.byte())}
		k.Hour = d.hour()
		k.Name = string(d.bytes(int(d.most(MaxName))))
		value := d.bytes(int(d.most(uint64(len(records)))))
		if d.failed {
			return errCut
		}
		if err := f(k, value); err != nil {
			return err
		}
		records = d.rest
	}
	return nil
}

func (d *decoder) hour() Hour {
	v, n := binary.Varint(d.rest)
	if n <= 0 || int64(Hour(v)) != v {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return Hour(v)
}
