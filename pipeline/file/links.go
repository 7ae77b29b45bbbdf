package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// reach says which files a tail may open. Whoever may write into the folder of a log could otherwise have any file read that nodetrail may read, by a
// symbolic link. Links in the names of the folders themselves are those of whoever configured them.
type reach struct {
	folders []string // that are configured, without links
	links   bool     // they may lead anywhere
}

// newReach is for the folders of absolute paths and patterns.
func newReach(paths []string, links bool) *reach {
	r := &reach{links: links}
	for _, p := range paths {
		dir := filepath.Dir(p)
		for magic(dir) {
			dir = filepath.Dir(dir)
		}
		r.folders = append(r.folders, dir)
	}
	return r
}

// resolve returns where the path leads. Every link below a configured folder has to lead to a file below one, of the link's own owner.
func (r *reach) resolve(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || r == nil || r.links {
		return target, err
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", err
	}
	below := false
	for _, folder := range r.folders {
		plain, err := filepath.EvalSymlinks(folder)
		if err != nil {
			continue // it is not there
		}
		below = below || isBelow(target, plain)
		rest, is := strings.CutPrefix(path, folder)
		if !is || !isBelow(path, folder) {
			continue
		}
		if filepath.Join(plain, rest) == target {
			return target, nil // no link
		}
		for at := plain; rest != ""; {
			var name string
			name, rest, _ = strings.Cut(strings.TrimPrefix(rest, string(filepath.Separator)), string(filepath.Separator))
			at = filepath.Join(at, name)
			link, err := os.Lstat(at)
			if err != nil {
				return "", err
			}
			if link.Mode()&os.ModeSymlink != 0 && !sameOwner(link, info) {
				return "", fmt.Errorf("the symbolic link %s leads to %s, which has another owner: set followLinks to read it", at, target)
			}
		}
	}
	if below {
		return target, nil
	}
	return "", fmt.Errorf("a symbolic link leads to %s, which is in none of the configured folders: set followLinks to read it", target)
}

func isBelow(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// open opens the file that the path leads to.
func (r *reach) open(path string) (*os.File, error) {
	target, err := r.resolve(path)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(target, os.O_RDONLY|noLink, 0)
}
