# For the build scripts beside it, which source this file: a program that takes
# minutes to build is built once and kept in the machine's cache.
#
#   cached NAME OUT FILE... -- COMMAND...
#
# copies the program to OUT. The cache is missed when NAME, the target or one
# of the FILEs changed; COMMAND is run then, with one more argument: the path
# to build to. The version of Go does not count: what is built here serves
# tests and is not shipped.
cached() {
	local name=$1 out=$2 files=() dir kept new
	shift 2
	while [ "$1" != -- ]; do
		files+=("$1")
		shift
	done
	shift

	dir=$(realpath -m "${FLISK_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flisk-ci}")
	kept=$dir/$name-$(go env GOOS)-$(go env GOARCH)-$(cat "${files[@]}" | sha256sum | cut -c1-16)
	mkdir -p "$dir" "$(dirname "$out")"
	if [ ! -x "$kept" ]; then
		printf 'building %s, to be kept as %s\n' "$name" "$kept" >&2
		# The name in the cache appears whole, by rename: a build that was cut
		# off leaves none, and two builds at once do no harm. COMMAND is no
		# part of a condition, in which set -e would not hold.
		new=$(mktemp -d "$dir/.new-XXXXXX")
		(
			trap 'rm -rf "$new"' EXIT
			"$@" "$new/program"
			mv -f "$new/program" "$kept"
		)
	fi
	# A new file, not new bytes in the old one, which may be running.
	cp "$kept" "$out.new-$$"
	mv -f "$out.new-$$" "$out"
}

# required MODULE prints the version of MODULE that ./go.mod requires.
required() {
	awk -v module="$1" '
		$1 == module && $2 ~ /^v/ { version = $2 }
		$1 == "require" && $2 == module { version = $3 }
		END { if (version == "") exit 1; print version }' go.mod
}
