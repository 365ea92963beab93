package docker

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/strslice"
	"github.com/docker/go-connections/nat"
	"github.com/docker/go-units"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// containerOf is a service as the engine takes it: every key that
// composefile.Check lets through. Name, labels and networks are the caller's.
func (t target) containerOf(s composefile.Service) (containerSpec, error) {
	spec := containerSpec{
		config: container.Config{
			Image: s.Image, Cmd: strslice.StrSlice(s.Command), Entrypoint: strslice.StrSlice(s.Entrypoint),
			WorkingDir: s.WorkingDir, User: s.User, Hostname: s.Hostname,
			Tty: s.Tty, OpenStdin: s.StdinOpen, StopSignal: s.StopSignal,
			Healthcheck: healthOf(s),
		},
		host: container.HostConfig{
			ReadonlyRootfs: s.ReadOnly, Init: s.Init, GroupAdd: s.GroupAdd, ShmSize: int64(s.ShmSize),
			CapAdd: s.CapAdd, CapDrop: s.CapDrop, SecurityOpt: s.SecurityOpt, Sysctls: s.Sysctls,
			DNS: s.DNS, DNSOptions: s.DNSOpts, DNSSearch: s.DNSSearch, ExtraHosts: s.ExtraHosts.AsList(":"),
			Tmpfs: map[string]string{},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if v := s.Environment[name]; v != nil {
			spec.config.Env = append(spec.config.Env, name+"="+*v)
		}
	}
	if s.StopGracePeriod != nil {
		spec.config.StopTimeout = new(int(math.Ceil(time.Duration(*s.StopGracePeriod).Seconds())))
	}
	for _, path := range s.Tmpfs {
		path, options := cutOptions(path)
		spec.host.Tmpfs[path] = options
	}
	if s.Logging != nil {
		spec.host.LogConfig = container.LogConfig{Type: s.Logging.Driver, Config: s.Logging.Options}
	}
	limits(&spec.host, s)
	var err error
	if spec.host.RestartPolicy, err = restartOf(s); err == nil {
		err = ports(&spec, s)
	}
	if err == nil {
		spec.host.Mounts, err = t.mounts(s)
	}
	return spec, err
}

// cutOptions takes "/tmp:size=1m" apart.
func cutOptions(tmpfs string) (path, options string) {
	for i := range tmpfs {
		if tmpfs[i] == ':' {
			return tmpfs[:i], tmpfs[i+1:]
		}
	}
	return tmpfs, ""
}

func healthOf(s composefile.Service) *container.HealthConfig {
	h := s.HealthCheck
	switch {
	case h == nil:
		return nil
	case h.Disable:
		return &container.HealthConfig{Test: []string{"NONE"}}
	}
	out := &container.HealthConfig{Test: h.Test}
	if h.Interval != nil {
		out.Interval = time.Duration(*h.Interval)
	}
	if h.Timeout != nil {
		out.Timeout = time.Duration(*h.Timeout)
	}
	if h.StartPeriod != nil {
		out.StartPeriod = time.Duration(*h.StartPeriod)
	}
	if h.StartInterval != nil {
		out.StartInterval = time.Duration(*h.StartInterval)
	}
	if h.Retries != nil {
		out.Retries = int(min(*h.Retries, math.MaxInt32))
	}
	return out
}

func limits(host *container.HostConfig, s composefile.Service) {
	host.Memory, host.MemoryReservation = int64(s.MemLimit), int64(s.MemReservation)
	host.NanoCPUs, host.CPUShares = int64(float64(s.CPUS)*1e9), s.CPUShares
	if s.PidsLimit != 0 {
		host.PidsLimit = &s.PidsLimit
	}
	for _, name := range slices.Sorted(maps.Keys(s.Ulimits)) {
		u := s.Ulimits[name]
		limit := &units.Ulimit{Name: name, Soft: int64(u.Soft), Hard: int64(u.Hard)}
		if u.Single != 0 {
			limit.Soft, limit.Hard = int64(u.Single), int64(u.Single)
		}
		host.Ulimits = append(host.Ulimits, limit)
	}
}

// restartOf reads "on-failure:3" and its like.
func restartOf(s composefile.Service) (container.RestartPolicy, error) {
	name, times := cutOptions(s.Restart)
	policy := container.RestartPolicy{Name: container.RestartPolicyMode(name)}
	if times != "" {
		n, err := strconv.Atoi(times)
		if err != nil {
			return policy, fault.New(fault.Usage, "", "service %q: cannot read restart: %q", s.Name, s.Restart)
		}
		policy.MaximumRetryCount = n
	}
	return policy, nil
}

func ports(spec *containerSpec, s composefile.Service) error {
	exposed, bindings := nat.PortSet{}, nat.PortMap{}
	for _, e := range s.Expose {
		port, err := nat.NewPort(nat.SplitProtoPort(e))
		if err != nil {
			return fault.New(fault.Usage, "", "service %q: cannot read expose: %w", s.Name, err)
		}
		exposed[port] = struct{}{}
	}
	for _, p := range s.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = "tcp"
		}
		port := nat.Port(fmt.Sprintf("%d/%s", p.Target, protocol))
		exposed[port] = struct{}{}
		if p.Published != "" {
			bindings[port] = append(bindings[port], nat.PortBinding{HostIP: p.HostIP, HostPort: p.Published})
		}
	}
	if len(exposed) > 0 {
		spec.config.ExposedPorts = exposed
	}
	if len(bindings) > 0 {
		spec.host.PortBindings = bindings
	}
	return nil
}

// mounts are a service's mounts, with the names that its volumes have on the
// engine.
func (t target) mounts(s composefile.Service) ([]mount.Mount, error) {
	var out []mount.Mount
	for _, v := range s.Volumes {
		m := mount.Mount{Type: mount.Type(v.Type), Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly}
		switch v.Type {
		case "volume":
			declared, ok := t.volumes[v.Source]
			if !ok {
				return nil, fault.New(fault.Usage, "declare it under volumes", "service %q mounts a volume %q, which has no name", s.Name, v.Source)
			}
			m.Source = declared.name
			if v.Volume != nil && v.Volume.NoCopy {
				m.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
			}
		case "tmpfs":
			m.Source = ""
			if v.Tmpfs != nil {
				m.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: int64(v.Tmpfs.Size)}
				if v.Tmpfs.Mode != 0 {
					m.TmpfsOptions.Mode = fs.FileMode(v.Tmpfs.Mode)
				}
			}
		}
		out = append(out, m)
	}
	return out, nil
}
