# For .ci/run, which sources this file: a Docker engine for the tests.
#
# start_engine returns when an engine answers. One that answers already is used
# as it is. Else one is started, installed before that from Debian's packages
# if there is none. stop_engine stops the one that start_engine started.
engine_pid=
engine_log=

engine_answers() { timeout 10 docker info >/dev/null 2>&1; }

start_engine() {
	if engine_answers; then
		return
	fi
	if [ -n "${DOCKER_HOST-}" ]; then
		printf 'no Docker engine answers at DOCKER_HOST=%s: start it, or unset DOCKER_HOST\n' "$DOCKER_HOST" >&2
		return 1
	fi
	if [ "$(id -u)" != 0 ]; then
		printf 'no Docker engine answers: start one that this user may use, or run as root\n' >&2
		return 1
	fi
	if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
		install_engine
		# On a machine with an init system the package has started it.
		if engine_answers; then
			return
		fi
	fi

	engine_log=$(mktemp)
	printf 'starting dockerd, log in %s\n' "$engine_log"
	# In a session of its own: Ctrl-C ends the tests, which still need the
	# engine to clean up, and stop_engine comes after them.
	setsid dockerd >"$engine_log" 2>&1 &
	engine_pid=$!
	local deadline=$((SECONDS + 90))
	while kill -0 "$engine_pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do
		if engine_answers; then
			return
		fi
		sleep 0.5
	done
	printf 'dockerd does not answer; the end of %s:\n' "$engine_log" >&2
	tail -n 30 "$engine_log" >&2
	return 1
}

install_engine() {
	local packages=(docker.io iptables ca-certificates)
	if ! command -v apt-get >/dev/null; then
		printf 'there is no dockerd and no apt-get to install it: install the Docker engine\n' >&2
		return 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q -o DPkg::Lock::Timeout=120 update
	# A package of its own since Debian 13, part of docker.io before.
	if apt-cache show docker-cli >/dev/null 2>&1; then
		packages+=(docker-cli)
	fi
	# With what they recommend: where the kernel has AppArmor, no container
	# starts without its tools.
	apt-get -q -y -o DPkg::Lock::Timeout=120 install "${packages[@]}"
}

stop_engine() {
	local failed=$?
	if [ -z "$engine_pid" ]; then
		return
	fi
	# It stops its containers first, and gives them 15 s.
	kill "$engine_pid" 2>/dev/null || true
	local deadline=$((SECONDS + 30))
	while kill -0 "$engine_pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do
		sleep 0.2
	done
	kill -KILL "$engine_pid" 2>/dev/null || true
	wait "$engine_pid" || true
	if [ "$failed" = 0 ]; then
		rm -f "$engine_log"
	fi
	engine_pid=
}
