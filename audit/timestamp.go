package audit

import (
	"errors"
	"time"
)

// microTime is the layout in which kube-apiserver writes times.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

var (
	errTimestamp = errors.New("time is not RFC 3339")
	errFarTime   = errors.New("time is not before the year 9999")
)

// lastYear is the last year of which times are read: those of the next one, with an hour or a day added, cannot be written as JSON.
const lastYear = 9998

// parseTime reads an RFC 3339 time with any fraction and any zone. kube-apiserver's own decoder wants six digits of fraction; other
// writers leave trailing zeros out.
func parseTime(s string) (time.Time, error) {
	t, ok := parseFixed(s)
	if !ok {
		var err error
		if t, err = time.Parse(microTime, s); err != nil {
			if t, err = time.Parse(time.RFC3339Nano, s); err != nil {
				return time.Time{}, errTimestamp
			}
		}
		t = t.UTC()
	}
	if t.Year() > lastYear {
		return time.Time{}, errFarTime
	}
	return t, nil
}

// parseFixed reads the one shape that nearly all times have, 2006-01-02T15:04:05.000000Z, and is false for any other.
func parseFixed(s string) (time.Time, bool) {
	if len(s) != 27 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' || s[26] != 'Z' {
		return time.Time{}, false
	}
	year := two(s[0:2])*100 + two(s[2:4])
	month, day := two(s[5:7]), two(s[8:10])
	hour, minute, second := two(s[11:13]), two(s[14:16]), two(s[17:19])
	micro := two(s[20:22])*10_000 + two(s[22:24])*100 + two(s[24:26])
	// A byte that is no digit makes two hugely negative, whatever is added to it.
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(month, year) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || micro < 0 {
		return time.Time{}, false
	}
	seconds := int64(days(year, month, day))*86400 + int64(hour*3600+minute*60+second)
	return time.Unix(seconds, int64(micro)*1000).UTC(), true
}

// two returns the value of two digits, or a number so small that no sum of values makes up for it.
func two(s string) int {
	a, b := s[0]-'0', s[1]-'0'
	if a > 9 || b > 9 {
		return -1 << 40
	}
	return int(a)*10 + int(b)
}

func daysIn(month, year int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// days returns the number of days from 1970-01-01 to a date of the Gregorian calendar, by counting years from March, so that the leap
// day is the last of its year.
func days(year, month, day int) int {
	if month -= 2; month <= 0 {
		month += 12
		year--
	}
	// Shifted by 400 years, so that no division sees a negative number.
	year += 400
	return year*365 + year/4 - year/100 + year/400 + (367*month)/12 - 30 + day - daysTo1970
}

// daysTo1970 makes days(1970, 1, 1) zero.
const daysTo1970 = (2369 * 365) + 2369/4 - 2369/100 + 2369/400 + (367*11)/12 - 30 + 1
