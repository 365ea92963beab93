package durable

func (r *rootFS) lstat(name string) (Info, error) { return infoOf(r.root.Lstat(name)) }
