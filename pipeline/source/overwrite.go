package source

// Overwriting makes sources overwrite memory before they use it again. What kept an alias to released memory then keeps letters that no log holds, every
// time and not only where the memory was needed soon. Tests set it before anything reads input; it is set in builds with the race detector.
var Overwriting = raceDetector //nolint:gochecknoglobals // for tests: an option would go through every constructor between them and the memory

// Overwrite overwrites memory that is about to be used again, where Overwriting is set.
func Overwrite(buf []byte) {
	if !Overwriting {
		return
	}
	buf = buf[:cap(buf)]
	for i := range buf {
		buf[i] = 'X'
	}
}
