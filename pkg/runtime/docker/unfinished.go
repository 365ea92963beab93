package docker

import "errors"

var errUnfinished = errors.New("the docker runtime is not finished yet")
