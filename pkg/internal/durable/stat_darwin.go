package durable

import "io/fs"

func (r *rootFS) lstat(name string) (fs.FileInfo, error) { return r.root.Lstat(name) }
