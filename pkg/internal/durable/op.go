package durable

// Op names a call of the store on the file system by its purpose, not by its
// system call: "commit.sync", not "fdatasync".
type Op string

// The operations of a session's life.
const (
	OpLockOpen    Op = "lock.open"
	OpLockTry     Op = "lock.try"
	OpLockWait    Op = "lock.wait"
	OpLockRelease Op = "lock.release"
	OpLockMkdir   Op = "lock.mkdir"
	OpLockDirSync Op = "lock.dirsync"

	OpSessionOpen  Op = "session.open"
	OpSessionStat  Op = "session.stat"
	OpSessionRead  Op = "session.read"
	OpSessionMkdir Op = "session.mkdir"
	OpShardSync    Op = "session.shardsync"

	OpHintRead  Op = "hint.read"
	OpHintWrite Op = "hint.write"
	OpHintSync  Op = "hint.sync"

	OpPreallocate Op = "begin.preallocate"
	OpBeginWrite  Op = "begin.write"
	OpEntryAdd    Op = "entry.add"
	OpEntryRemove Op = "entry.remove"

	OpCommitCheck  Op = "commit.check"
	OpCommitWrite  Op = "commit.write"
	OpCommitSync   Op = "commit.sync"
	OpMarkWrite    Op = "mark.write"
	OpFailWrite    Op = "fail.write"
	OpDeliverWrite Op = "delivered.write"
	OpCut          Op = "cut"
	OpTrim         Op = "trim"

	OpDeleteRemove  Op = "delete.remove"
	OpDeleteDirSync Op = "delete.dirsync"
	OpListDir       Op = "list.dir"

	OpReplicaDir    Op = "replica.dir"
	OpReplicaOpen   Op = "replica.open"
	OpReplicaLock   Op = "replica.lock"
	OpReplicaRename Op = "replica.rename"
	OpReplicaRemove Op = "replica.remove"
	OpReplicaSync   Op = "replica.dirsync"

	OpVolumeRead  Op = "volume.read"
	OpProbe       Op = "probe"
	OpProbeLock   Op = "probe.lock"
	OpProbeRemove Op = "probe.remove"

	OpVerifyMove Op = "verify.move" // a verification takes a session's file away, and brings it back
)

// The whole-file writes: the prefixes that [Write] puts before its steps.
const (
	CreateFile  Op = "create"
	RewriteFile Op = "rewrite"
	VolumeFile  Op = "volume"
	ProbeFile   Op = "probe"
)

// The steps of a whole-file write of a session.
const (
	OpCreateOpen     = CreateFile + stepOpen
	OpCreateWrite    = CreateFile + stepWrite
	OpCreateSync     = CreateFile + stepSync
	OpCreateRename   = CreateFile + stepRename
	OpCreateDirSync  = CreateFile + stepDirSync
	OpRewriteOpen    = RewriteFile + stepOpen
	OpRewriteWrite   = RewriteFile + stepWrite
	OpRewriteSync    = RewriteFile + stepSync
	OpRewriteRename  = RewriteFile + stepRename
	OpRewriteDirSync = RewriteFile + stepDirSync
)

const (
	stepClean   Op = ".clean"
	stepOpen    Op = ".open"
	stepWrite   Op = ".write"
	stepCheck   Op = ".check"
	stepSync    Op = ".sync"
	stepRename  Op = ".rename"
	stepLink    Op = ".link"
	stepDirSync Op = ".dirsync"
)
