/*
 * stitchpool: one address range over every GPU, and a memory pool on it that never fragments.
 *
 * Rules of all functions
 * - The answer is a status. On any but STITCHPOOL_OK nothing has changed and nothing was written,
 *   unless the function says otherwise; stitchpool_last_error() has the words, on the same thread.
 * - Drivers and pools are handles: numbers in a pointer's clothes, compared and never followed. One
 *   that was closed, or never given out, is STITCHPOOL_INVALID_HANDLE; null is STITCHPOOL_NULL_POINTER.
 *   So are the leases, views, growable buffers, pins, listeners, exporters and offers of a pool, which another pool does not
 *   know. While one of them but a listener is there, the pool is not destroyed: STITCHPOOL_IN_USE.
 * - Any other pointer must be null (a status where the function does not allow it) or point to what
 *   its type says until the call returns. Pointers to device memory are never followed.
 * - Structs are passed by pointer. Those that begin with `struct_size` may get more fields behind the
 *   ones they have: set struct_size to sizeof the struct, and all that you do not use to 0.
 * - Sizes are bytes, times microseconds; the names end with the unit.
 * - Every function may be called from any thread, at the same time, with the same pool. Closing waits
 *   for calls that are under way on other threads.
 * - Devices are the driver's ordinals; STITCHPOOL_HOST is the host as a place for memory.
 * - A raw stream is the driver's own handle (CUstream or cudaStream_t) of a live stream in the primary
 *   context of its device. The driver gives a destroyed stream's handle to a new one: retire a stream
 *   before you destroy it. 0 and 1 are the legacy default stream, 2 the calling thread's default
 *   stream; a program that is built for per-thread default streams passes 2 where it says 0.
 */
#ifndef STITCHPOOL_H
#define STITCHPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STITCHPOOL_VERSION_MAJOR 0
#define STITCHPOOL_VERSION_MINOR 1
#define STITCHPOOL_VERSION_PATCH 0
#define STITCHPOOL_VERSION \
    (STITCHPOOL_VERSION_MAJOR * 1000000 + STITCHPOOL_VERSION_MINOR * 1000 + STITCHPOOL_VERSION_PATCH)

/* What a function answers. The numbers never change; new ones may be added. */
typedef int32_t stitchpool_status;
enum {
    STITCHPOOL_OK = 0,
    STITCHPOOL_OUT_OF_MEMORY = 1,      /* after everything was tried; the words say what holds the rest */
    STITCHPOOL_NULL_POINTER = 2,       /* a pointer that must point somewhere does not */
    STITCHPOOL_INVALID_HANDLE = 3,     /* not an open driver or pool, nor anything held of it */
    STITCHPOOL_INVALID_ARGUMENT = 4,   /* a value that cannot be */
    STITCHPOOL_INVALID_SIZE = 5,       /* 0, or more than any device could ever hold */
    STITCHPOOL_INVALID_ALIGNMENT = 6,  /* no power of two, or above the granule */
    STITCHPOOL_UNKNOWN_ADDRESS = 7,    /* not the address of a live block of this pool */
    STITCHPOOL_UNKNOWN_STREAM = 8,     /* not a registered stream of this pool, or retired */
    STITCHPOOL_UNKNOWN_DEVICE = 9,     /* not a device of this pool or driver */
    STITCHPOOL_UNREACHABLE = 10,       /* a device cannot reach the memory of another */
    STITCHPOOL_NO_RIGHTS = 11,         /* the stream's device may not use the block */
    STITCHPOOL_OUT_OF_RANGE = 12,      /* a part reaches beyond its block */
    STITCHPOOL_TOO_MANY = 13,          /* a limit on the number of things is reached */
    STITCHPOOL_TOO_SMALL = 14,         /* your array: what fits was written, and how much there is */
    STITCHPOOL_IN_USE = 15,            /* blocks are live, or something is held */
    STITCHPOOL_BUSY = 16,              /* calls are under way that do not end */
    STITCHPOOL_UNAVAILABLE = 17,       /* no such driver on this machine */
    STITCHPOOL_NOT_SUPPORTED = 18,     /* the driver or platform cannot do this */
    STITCHPOOL_NOT_PERMITTED = 19,     /* it could, but this process may not */
    STITCHPOOL_OUT_OF_RESOURCES = 20,  /* addresses, mappings or descriptors have run out */
    STITCHPOOL_CAPTURE = 21,           /* a capture forbids it */
    STITCHPOOL_TIMEOUT = 22,           /* the GPU was not done in time */
    STITCHPOOL_ILLEGAL_ADDRESS = 23,   /* work touched an address it had no rights to: the context is lost */
    STITCHPOOL_DEINITIALIZED = 24,     /* the driver is shut down: the process is ending */
    STITCHPOOL_DRIVER = 25,            /* another refusal of the driver */
    STITCHPOOL_INTERNAL = 26,          /* a fault of this library: open a new pool, and please report it */
    STITCHPOOL_ASLEEP = 27,            /* the arena or block is suspended */
    STITCHPOOL_SHARED = 28,            /* the block shares handles with others: nothing can be done to it alone */
    STITCHPOOL_UNKNOWN_ARENA = 29,     /* not an arena of this pool */
    STITCHPOOL_DISK = 30,              /* a backup file would not do */
    STITCHPOOL_HELD = 31,              /* leases, views, exports or other processes hold the block */
    STITCHPOOL_VETOED = 32,            /* a listener would not let memory go */
    STITCHPOOL_STALE = 33,             /* the ticket names memory that is not offered any more */
    STITCHPOOL_GONE = 34,              /* the memory was recalled, or the process that exported it is gone */
    STITCHPOOL_CALLED_OFF = 35,        /* not all of a group could import, so none has */
    STITCHPOOL_SOCKET = 36,            /* the system refused something about a socket */
    STITCHPOOL_REFUSED = 37            /* another process refused, or sent what cannot be */
};

/* The host as a place for memory. */
#define STITCHPOOL_HOST (-1)
/* No limit; not known. */
#define STITCHPOOL_ALL UINT64_MAX

typedef struct stitchpool_driver stitchpool_driver;
typedef struct stitchpool_pool stitchpool_pool;
typedef struct stitchpool_lease stitchpool_lease;
typedef struct stitchpool_view stitchpool_view;
typedef struct stitchpool_growable stitchpool_growable;
typedef struct stitchpool_pin stitchpool_pin;
typedef struct stitchpool_listener stitchpool_listener;
typedef struct stitchpool_exporter stitchpool_exporter;
typedef struct stitchpool_offer stitchpool_offer;
typedef struct stitchpool_importer stitchpool_importer;
typedef struct stitchpool_import stitchpool_import;
typedef struct stitchpool_hold stitchpool_hold;
/* A stream that is registered with a pool; never 0. */
typedef uint64_t stitchpool_stream;

/* ---- The library ---- */

/* Its version, as STITCHPOOL_VERSION counts. Equal major numbers (and, at 0, minor ones) fit. */
uint32_t stitchpool_version(void);
/*
 * The words of this thread's latest refusal, until its next; empty if there was none. Not null. On a thread that
 * is ending, and in exit handlers, they say no more than what the status means.
 */
const char *stitchpool_last_error(void);
/* A status as it is spelled above. Not null. */
const char *stitchpool_status_name(stitchpool_status status);

/* ---- Drivers ---- */

/* stitchpool_driver_options.kind, stitchpool_driver_info.kind */
enum {
    STITCHPOOL_DRIVER_AUTO = 0, /* cuda where it is available, else host */
    STITCHPOOL_DRIVER_CUDA = 1,
    STITCHPOOL_DRIVER_HOST = 2  /* memory of this process, without a GPU */
};

/* Which driver, and what the host driver shall look like. 0 is each field's default. */
typedef struct stitchpool_driver_options {
    size_t struct_size;
    int32_t kind;
    uint32_t host_devices;         /* 1; at most 63 */
    uint64_t host_capacity_bytes;  /* of each device; 139.75 GiB */
    uint64_t host_granule_bytes;   /* a power of two; 2 MiB */
} stitchpool_driver_options;

typedef struct stitchpool_driver_info {
    size_t struct_size;
    int32_t kind;
    uint32_t device_count;
} stitchpool_driver_info;

typedef struct stitchpool_device_info {
    size_t struct_size;
    int32_t device;
    uint32_t reserved;
    uint64_t total_bytes;
    uint64_t granule_bytes; /* the unit of handles; the greatest alignment of a block */
    uint8_t uuid[16];       /* the same in every process */
    char name[256];
} stitchpool_device_info;

/* stitchpool_device_link */
enum {
    STITCHPOOL_LINK_NONE = 0,
    STITCHPOOL_LINK_BUS = 1,
    STITCHPOOL_LINK_DIRECT = 2,
    STITCHPOOL_LINK_OWN = 3
};

/*
 * Opens a driver; null options are all defaults. STITCHPOOL_UNAVAILABLE: there is no such driver here,
 * and the words say what is missing. With AUTO the host driver is taken then, the answer is
 * STITCHPOOL_OK, and stitchpool_last_error() still says why it is not CUDA (else it is empty).
 */
stitchpool_status stitchpool_driver_open(const stitchpool_driver_options *options, stitchpool_driver **driver);
/* Closes a driver. Pools that were made with it go on. */
stitchpool_status stitchpool_driver_close(stitchpool_driver *driver);
stitchpool_status stitchpool_driver_describe(const stitchpool_driver *driver, stitchpool_driver_info *info);
/* What does not change about a device. Makes no context there. */
stitchpool_status stitchpool_device_describe(const stitchpool_driver *driver, int32_t device,
                                             stitchpool_device_info *info);
/* A device's memory now, other processes included. With CUDA it makes the device's primary context. */
stitchpool_status stitchpool_device_memory(const stitchpool_driver *driver, int32_t device, uint64_t *free_bytes,
                                           uint64_t *total_bytes);
/* How device `from` reaches memory of device `to`. */
stitchpool_status stitchpool_device_link(const stitchpool_driver *driver, int32_t from, int32_t to, int32_t *link);

/* Streams for programs that have no others: tests, and the host driver. The same verbs as the driver's own. */
stitchpool_status stitchpool_driver_stream_create(const stitchpool_driver *driver, int32_t device, void **raw_stream);
stitchpool_status stitchpool_driver_stream_destroy(const stitchpool_driver *driver, int32_t device, void *raw_stream);
/* Waits until all that is queued on the stream is done. */
stitchpool_status stitchpool_driver_stream_finish(const stitchpool_driver *driver, int32_t device, void *raw_stream);

/* ---- Pools ---- */

/* stitchpool_settings.handle_kind: how memory may leave the process */
enum {
    STITCHPOOL_HANDLE_PRIVATE = 0,
    STITCHPOOL_HANDLE_FILE_DESCRIPTOR = 1,
    STITCHPOOL_HANDLE_FABRIC = 2
};

/* Begin with stitchpool_settings_default(). */
typedef struct stitchpool_settings {
    size_t struct_size;
    const int32_t *devices;     /* the devices memory may come from */
    size_t device_count;        /* 0: all that the driver has */
    uint64_t limit_bytes;       /* the pool holds at most so much of each device; STITCHPOOL_ALL */
    uint64_t headroom_bytes;    /* forced growth ends so far below the limit */
    uint64_t handle_bytes_max;  /* the largest handle; with one granule, whole granules always suffice */
    uint64_t address_bytes;     /* addresses to reserve; 0: the pool's choice */
    uint64_t wait_max_us;       /* how long the CPU may wait for pending memory before a request fails */
    uint64_t seal_pause_us;     /* a stream's frees are sealed at most this often */
    uint64_t decay_us;          /* memory not needed for so long may be given back */
    int32_t handle_kind;
    int32_t stream_waits;       /* 1: a stream may be made to wait for another's frees; 0: never */
    int32_t open_to_peers;      /* 1: so may every device that has a stream in the pool and can reach it; 0: those asked for */
    int32_t poison;             /* 1: blocks whose content was discarded come back full of 0xA5; 0: of anything */
    uint64_t backup_keep_bytes; /* host and peer memory of backups that is kept for the next suspend */
    int32_t background_thread;  /* 1: a thread of the pool's takes down what handles that moved left mapped; 0: frees do */
    int32_t reserved;           /* 0 */
} stitchpool_settings;

/* What a trim has done. */
typedef struct stitchpool_trimmed {
    size_t struct_size;
    uint64_t released_bytes; /* given back to the driver */
    uint64_t waiting_bytes;  /* free, but some stream may still be using them */
} stitchpool_trimmed;

/* Fills in the defaults. Set struct_size before. */
stitchpool_status stitchpool_settings_default(stitchpool_settings *settings);
/* Makes a pool on a driver; null settings are the defaults. */
stitchpool_status stitchpool_pool_create(const stitchpool_driver *driver, const stitchpool_settings *settings,
                                         stitchpool_pool **pool);
/* The driver that a pool is on, as a handle of its own, to be closed like any other. */
stitchpool_status stitchpool_pool_driver(const stitchpool_pool *pool, stitchpool_driver **driver);
/*
 * Destroys a pool, after its streams have done what is queued on them, and gives everything back.
 * STITCHPOOL_IN_USE: blocks are live; the words say how many and how many bytes. STITCHPOOL_TIMEOUT or
 * another refusal of the driver: a stream is not done, or was destroyed before it was retired.
 * STITCHPOOL_BUSY: a call of another thread does not end, or this is called from inside a callback.
 * The pool can be used as before then.
 */
stitchpool_status stitchpool_pool_destroy(stitchpool_pool *pool);
/*
 * Destroys a pool whatever is live. Memory that may be in use, by live blocks or by streams that do not
 * finish, is left standing until the process ends: its addresses stay good, and nobody can free it.
 */
stitchpool_status stitchpool_pool_destroy_leaking(stitchpool_pool *pool);

/*
 * Gives back to the driver what is wholly free and past every stream; waits for nothing. `trimmed` may
 * be null. Where the driver refuses some of it, the answer says so, and `trimmed` what was done.
 */
stitchpool_status stitchpool_trim(const stitchpool_pool *pool, stitchpool_trimmed *trimmed);
/* The same, after the streams have done what is queued so far: each for wait_max_us at most. */
stitchpool_status stitchpool_trim_and_wait(const stitchpool_pool *pool, stitchpool_trimmed *trimmed);

/*
 * From now on the pool holds at most so many bytes of a device; STITCHPOOL_ALL: all it has. What it
 * holds above that stays until it is trimmed.
 */
stitchpool_status stitchpool_limit_set(const stitchpool_pool *pool, int32_t device, uint64_t limit_bytes);
/* From now on forced growth on a device ends so far below its limit: closer to it, other streams are waited for. */
stitchpool_status stitchpool_headroom_set(const stitchpool_pool *pool, int32_t device, uint64_t headroom_bytes);
/* From now on physical_peak_bytes of a device counts anew, from what is held now. */
stitchpool_status stitchpool_peaks_reset(const stitchpool_pool *pool, int32_t device);

/* ---- Streams ---- */

/* Registers a live stream. One that is registered already keeps its number. */
stitchpool_status stitchpool_stream_register(const stitchpool_pool *pool, int32_t device, void *raw_stream,
                                             stitchpool_stream *stream);
/*
 * Nothing more will be queued on the stream: call it before the stream is destroyed. Its blocks may
 * still be freed, and its memory serves the other streams.
 */
stitchpool_status stitchpool_stream_retire(const stitchpool_pool *pool, stitchpool_stream stream);
/* The same, by the driver's handle. */
stitchpool_status stitchpool_stream_retire_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream);

/* ---- Blocks ---- */

/* stitchpool_request.placement: what `pieces` means */
enum {
    STITCHPOOL_PLACE_DEFAULT = 0,     /* no pieces: on the stream's device */
    STITCHPOOL_PLACE_HOME = 1,        /* one piece: all on its device */
    STITCHPOOL_PLACE_SPILL = 2,       /* on the first device that has room, the rest on the next */
    STITCHPOOL_PLACE_ROUND_ROBIN = 3, /* stripes of stripe_bytes, dealt to the devices in turn */
    STITCHPOOL_PLACE_WEIGHTED = 4,    /* one run a device, in proportion to the weights */
    STITCHPOOL_PLACE_SHARDS = 5       /* exactly these runs of whole granules, in this order */
};

typedef struct stitchpool_piece {
    int32_t device;
    uint32_t weight; /* WEIGHTED alone */
    uint64_t bytes;  /* SHARDS alone */
} stitchpool_piece;

/* What a block shall be. All but the size and the stream may be 0. */
typedef struct stitchpool_request {
    size_t struct_size;
    uint64_t bytes;
    stitchpool_stream stream;
    uint64_t alignment_bytes; /* a power of two, at most the granule; 0: 512 */
    const stitchpool_piece *pieces;
    size_t piece_count;
    const int32_t *readers;   /* devices that may use it too */
    size_t reader_count;
    uint64_t stripe_bytes;    /* ROUND_ROBIN alone: whole granules */
    int32_t placement;
    uint32_t arena;           /* 0: the default arena */
    int32_t exclusive;        /* 1: with handles of its own, so that it alone can be suspended, moved, exchanged */
    uint32_t reserved;
} stitchpool_request;

/* Allocates at least `bytes` for work of a stream, on its device. The content is undefined. */
stitchpool_status stitchpool_alloc(const stitchpool_pool *pool, stitchpool_stream stream, uint64_t bytes,
                                   void **address);
/* Allocates with all that can be asked for. `block_bytes`, which may be null, gets the block's length. */
stitchpool_status stitchpool_alloc_request(const stitchpool_pool *pool, const stitchpool_request *request,
                                           void **address, uint64_t *block_bytes);
/* As stitchpool_alloc, by the driver's handle; registers the stream if it is new. */
stitchpool_status stitchpool_alloc_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream, uint64_t bytes,
                                       void **address);

/*
 * Frees a block, in the order of the stream it was allocated for: what is queued there so far may still
 * use it. From any thread. Null is nothing, and STITCHPOOL_OK.
 */
stitchpool_status stitchpool_free(const stitchpool_pool *pool, void *address);
/* Frees a block after what is queued so far on its own stream and on `stream`. */
stitchpool_status stitchpool_free_on(const stitchpool_pool *pool, void *address, stitchpool_stream stream);
/*
 * The same, by the driver's handle of a live stream; registers it if it is new. Where the block was
 * used on its own stream alone, which may be destroyed by now, stitchpool_free() needs no stream.
 */
stitchpool_status stitchpool_free_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream, void *address);
/* The block is used on `stream` too: once freed, it is not reused before what is queued there then is done. */
stitchpool_status stitchpool_record_use(const stitchpool_pool *pool, void *address, stitchpool_stream stream);
/* The same, by the driver's handle; registers the stream if it is new. */
stitchpool_status stitchpool_record_use_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream,
                                            void *address);

/* ---- Memory that leaves its address and comes back ---- */

/* stitchpool_scope.kind: what an operation is about */
enum {
    STITCHPOOL_SCOPE_ALL = 0,
    STITCHPOOL_SCOPE_ARENA = 1, /* `arena` */
    STITCHPOOL_SCOPE_BLOCK = 2, /* the exclusive block at `address` */
    STITCHPOOL_SCOPE_RANGE = 3  /* `bytes` from `address` on: whole handles of one exclusive block */
};

typedef struct stitchpool_scope {
    size_t struct_size;
    int32_t kind;
    uint32_t arena;
    const void *address;
    uint64_t bytes;
} stitchpool_scope;

/* stitchpool_backup.kind: what becomes of the content */
enum {
    STITCHPOOL_BACKUP_HOST = 0,    /* it waits in host memory */
    STITCHPOOL_BACKUP_DISCARD = 1, /* it is gone */
    STITCHPOOL_BACKUP_PEER = 2,    /* it waits in memory of device `peer` */
    STITCHPOOL_BACKUP_DISK = 3     /* it waits in a file in `directory` */
};

typedef struct stitchpool_backup {
    size_t struct_size;
    int32_t kind;
    int32_t peer;
    const char *directory;
} stitchpool_backup;

/* What was done. */
typedef struct stitchpool_moved {
    size_t struct_size;
    uint64_t memory_bytes;          /* given back (whatever a backup takes), taken, or moved */
    uint64_t content_bytes;         /* put away, brought back, or copied */
    uint64_t not_yet_visible_bytes; /* given back, and not shown as free by the driver yet */
    int32_t already;                /* 1: there was nothing to do */
    uint32_t reserved;
} stitchpool_moved;

/* The number of the arena of this name, made if there is none yet. */
stitchpool_status stitchpool_arena(const stitchpool_pool *pool, const char *name, uint32_t *arena);

/*
 * The four operations below keep every address and every right. They wait first for all work of every device
 * that may use the memory; from the call to the return nothing may be queued that uses it. While a stream of
 * the pool is being captured they answer STITCHPOOL_CAPTURE. A null scope is all of the pool.
 */

/*
 * Gives the memory of a scope back to the driver. Its blocks may be freed meanwhile; nothing can be allocated
 * in an arena that sleeps. A null backup is host memory; `moved` may be null.
 */
stitchpool_status stitchpool_suspend(const stitchpool_pool *pool, const stitchpool_scope *scope,
                                     const stitchpool_backup *backup, stitchpool_moved *moved);
/* Takes memory for all that sleeps of a scope, under the same addresses and with the same bytes. */
stitchpool_status stitchpool_resume(const stitchpool_pool *pool, const stitchpool_scope *scope,
                                    stitchpool_moved *moved);
/*
 * Moves the memory of a scope to a device; the bytes are copied. What is backed later of a growable buffer, or of
 * that range of it, lies there too.
 */
stitchpool_status stitchpool_migrate(const stitchpool_pool *pool, const stitchpool_scope *scope, int32_t device,
                                     stitchpool_moved *moved);
/* Exchanges the memory of two exclusive blocks, or ranges, of the same layout. Nothing is copied. */
stitchpool_status stitchpool_exchange(const stitchpool_pool *pool, const stitchpool_scope *one,
                                      const stitchpool_scope *other);
/*
 * From now on the exclusive blocks of an arena may be put out to `refuge` (host memory, a peer or a directory)
 * while memory is short, those first that were not used for longest; null: no more. Uses are the allocation,
 * stitchpool_touch(), and the begin and the end of a lease: of the GPU's work the pool sees nothing. What leases,
 * views or pins hold stays.
 */
stitchpool_status stitchpool_evictable_set(const stitchpool_pool *pool, uint32_t arena,
                                           const stitchpool_backup *refuge);

/* ---- Rights ---- */

/* stitchpool_grant.rights */
enum {
    STITCHPOOL_RIGHTS_NONE = 0,
    STITCHPOOL_RIGHTS_READ = 1,
    STITCHPOOL_RIGHTS_READ_WRITE = 2
};

/* What a device may do with memory. */
typedef struct stitchpool_grant {
    int32_t device;
    int32_t rights;
} stitchpool_grant;

/*
 * Sets what each device that is named may do with the memory of a scope from now on; the others keep their
 * rights. A null scope is all of the pool; STITCHPOOL_SCOPE_RANGE is whole handles of one exclusive block.
 * Where a right is lowered, the CPU waits first for all that is queued on that device; from the call to the
 * return nothing may be queued that uses the memory. Lowering is refused while leases or views hold it
 * (STITCHPOOL_HELD) and while a stream is being captured (STITCHPOOL_CAPTURE).
 */
stitchpool_status stitchpool_rights_set(const stitchpool_pool *pool, const stitchpool_scope *scope,
                                        const stitchpool_grant *grants, size_t count);

/* ---- Leases and views ---- */

/*
 * Takes a lease of the live block at an address: the block stays in place until the lease ends, for whoever
 * has read its address and not launched yet. It may be freed meanwhile; the free takes effect then.
 */
stitchpool_status stitchpool_lease_take(const stitchpool_pool *pool, const void *address, stitchpool_lease **lease);
/*
 * The same of a block that may have been put out: brings it back first, putting others out for it if need be, and
 * counts as a use. On a refusal the block is as it was.
 */
stitchpool_status stitchpool_touch(const stitchpool_pool *pool, const void *address, stitchpool_lease **lease);
/* Work on `stream` uses the block: what is queued there until the lease ends. */
stitchpool_status stitchpool_lease_record_use(const stitchpool_pool *pool, const stitchpool_lease *lease,
                                              stitchpool_stream stream);
/*
 * Ends a lease: what it was taken for is queued on `stream` by now. 0: it was launched on no stream but those
 * that the lease was told of. On a refusal the lease goes on.
 */
stitchpool_status stitchpool_lease_end(const stitchpool_pool *pool, stitchpool_lease *lease, stitchpool_stream stream);

/* A part of a live block: whole handles. An exclusive block begins and ends with one. */
typedef struct stitchpool_part {
    const void *address;
    uint64_t bytes;
} stitchpool_part;

/*
 * Makes a contiguous range over parts of live blocks, which stay where they are: one memory, two addresses.
 * It is open to the devices of `grants` and nobody else. It holds its blocks as leases do.
 */
stitchpool_status stitchpool_view_create(const stitchpool_pool *pool, const stitchpool_part *parts, size_t part_count,
                                         const stitchpool_grant *grants, size_t grant_count, stitchpool_view **view);
/* Where it begins and how long it is; each may be null. */
stitchpool_status stitchpool_view_range(const stitchpool_pool *pool, const stitchpool_view *view, void **address,
                                        uint64_t *bytes);
/* Work on `stream` uses the view: what is queued there until it is dropped. Tell it of every stream. */
stitchpool_status stitchpool_view_record_use(const stitchpool_pool *pool, const stitchpool_view *view,
                                             stitchpool_stream stream);
/* The view's addresses mean nothing any more, once the streams that it was told of are past. */
stitchpool_status stitchpool_view_drop(const stitchpool_pool *pool, stitchpool_view *view);

/* ---- Growable buffers ---- */

/*
 * Reserves addresses for `max_bytes` and backs the first `request->bytes` of them, which may be 0. The address
 * never changes; memory comes and goes by whole handles, of which none crosses a multiple of `step_bytes`
 * (whole granules; 0: as large as the pool makes them). Content is undefined where it was newly backed. All is
 * in the order of the request's stream.
 */
stitchpool_status stitchpool_growable_create(const stitchpool_pool *pool, const stitchpool_request *request,
                                             uint64_t max_bytes, uint64_t step_bytes, stitchpool_growable **growable,
                                             void **address);
/* Backs its first `bytes`, rounded up to granules. What is backed already stays as it is. */
stitchpool_status stitchpool_growable_grow_to(const stitchpool_pool *pool, const stitchpool_growable *growable,
                                              uint64_t bytes);
/* Backs `bytes` from `offset_bytes` on, whole granules: all of it, or nothing. */
stitchpool_status stitchpool_growable_back(const stitchpool_pool *pool, const stitchpool_growable *growable,
                                           uint64_t offset_bytes, uint64_t bytes);
/*
 * Gives back what is backed of `bytes` from `offset_bytes` on. STITCHPOOL_SHARED: a handle lies in it only in
 * part. `given_bytes`, which may be null, gets how many bytes that were.
 */
stitchpool_status stitchpool_growable_give_back(const stitchpool_pool *pool, const stitchpool_growable *growable,
                                                uint64_t offset_bytes, uint64_t bytes, uint64_t *given_bytes);
stitchpool_status stitchpool_growable_backed_bytes(const stitchpool_pool *pool, const stitchpool_growable *growable,
                                                   uint64_t *backed_bytes);
/* A backed part is used on `stream` too: once given back, it is not reused before that use is done. */
stitchpool_status stitchpool_growable_record_use(const stitchpool_pool *pool, const stitchpool_growable *growable,
                                                 uint64_t offset_bytes, uint64_t bytes, stitchpool_stream stream);
/* Gives all of it back; the addresses go with it. */
stitchpool_status stitchpool_growable_drop(const stitchpool_pool *pool, stitchpool_growable *growable);

/* ---- Captures and graphs ---- */

/*
 * Makes an arena (not the default one) a graph's: until the capture ends, all requests of the stream that name
 * no arena are served there. Nobody takes, trims or moves its memory before the graph is released, also when
 * its blocks are freed: a replay still uses it. You begin the driver's own capture, before or after. What
 * cannot be had without waiting is STITCHPOOL_OUT_OF_MEMORY, and the capture stays valid. Another stream that
 * joins is begun with the same arena, and ended by itself; it counts as the same graph.
 */
stitchpool_status stitchpool_capture_begin(const stitchpool_pool *pool, stitchpool_stream stream, uint32_t arena);
/* The same, by the driver's handle; registers the stream if it is new. */
stitchpool_status stitchpool_capture_begin_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream,
                                               uint32_t arena);
/* The stream's requests are served as before. The arena stays its graph's. */
stitchpool_status stitchpool_capture_end(const stitchpool_pool *pool, stitchpool_stream stream);
/* The same, by the driver's handle. */
stitchpool_status stitchpool_capture_end_raw(const stitchpool_pool *pool, int32_t device, void *raw_stream);
/* No graph has come of it: ends the capture with those of all streams that joined it, and releases the graph. */
stitchpool_status stitchpool_capture_abort(const stitchpool_pool *pool, stitchpool_stream stream);
/*
 * A graph with memory in the arena is destroyed. After as many as were captured there, the arena is an ordinary
 * one again, and its free memory serves others. Replays on streams that the pool does not know must be done.
 */
stitchpool_status stitchpool_graph_release(const stitchpool_pool *pool, uint32_t arena);
/* Forgets an arena that has neither live blocks nor graphs; its number is never given again. */
stitchpool_status stitchpool_arena_dissolve(const stitchpool_pool *pool, uint32_t arena);

/* ---- When memory is short ---- */

typedef struct stitchpool_shortage {
    size_t struct_size;
    uint64_t asked_bytes;
    uint64_t missing_bytes;
    const char *text; /* what holds the rest; valid during the call */
} stitchpool_shortage;

/*
 * Asked before a request fails; answers not 0 if it has freed something, and the request is tried once
 * more, and again as long as that frees something. No lock is held: it may use pools, but not destroy
 * one, and a pool that another thread is about to destroy answers it with STITCHPOOL_BUSY. It runs on
 * the thread that asked for memory, on several at once if several did, and does not throw.
 */
typedef int32_t (*stitchpool_relief)(const stitchpool_shortage *shortage, void *user_data);

/* Asks `relief` from now on, instead of the one before; null: nobody. Calls of that one may still be running. */
stitchpool_status stitchpool_on_shortage(const stitchpool_pool *pool, stitchpool_relief relief, void *user_data);

/* ---- Looking ---- */

/* Figures of a pool. The bytes are sums over its devices. */
typedef struct stitchpool_stats {
    size_t struct_size;
    uint64_t allocs;
    uint64_t frees;
    uint64_t hits;             /* served without a driver call */
    uint64_t misses;
    uint64_t handles_created;
    uint64_t handles_released;
    uint64_t handles_aliased;  /* taken from one place to another */
    uint64_t handles_unmapped;
    uint64_t stale_mappings;   /* left by their handle, to be taken down */
    uint64_t stream_waits;     /* times that one stream was made to wait for another */
    uint64_t cpu_waits;        /* times that the CPU waited for the GPU */
    uint64_t live_blocks;
    uint64_t quarantined;      /* things the driver refused to take back */
    uint64_t forced_bytes;     /* created beyond the highest live bytes of that time */
    uint64_t metadata_bytes;   /* host memory of the pool itself */
    uint64_t physical_bytes;
    uint64_t live_bytes;
    uint64_t free_bytes;
    uint64_t pending_bytes;
    uint64_t stranded_bytes;
    uint64_t quarantined_bytes;
    uint64_t suspended_bytes;
    uint64_t backup_bytes;
    uint64_t pinned_bytes;
    uint64_t kept_bytes;
    uint64_t evictions;        /* blocks put out while memory was short */
    uint64_t evicted_bytes;    /* memory that was freed by that */
    uint64_t returned_bytes;   /* memory that was taken to bring such blocks back */
} stitchpool_stats;

/* What holds a device's memory. */
typedef struct stitchpool_device_stats {
    size_t struct_size;
    int32_t device;
    uint32_t reserved;
    uint64_t limit_bytes;         /* the pool may hold so much */
    uint64_t physical_bytes;      /* it holds so much */
    uint64_t live_bytes;          /* in live blocks */
    uint64_t free_bytes;          /* in wholly free handles and idle ones */
    uint64_t pending_bytes;       /* freed, but other streams may still be using them */
    uint64_t stranded_bytes;      /* free in partly used handles */
    uint64_t quarantined_bytes;   /* out of use: the driver refused to take them back */
    uint64_t device_free_bytes;   /* free outside the pool; STITCHPOOL_ALL: not known */
    uint64_t physical_peak_bytes;
    uint64_t live_peak_bytes;     /* lowered by decay */
    uint64_t suspended_bytes;     /* in blocks that are suspended: not held now, and needed to resume */
    uint64_t backup_bytes;        /* in backups of suspended blocks, and kept for such */
    uint64_t pinned_bytes;        /* free, but a graph's or in pinned handles, so that nobody may take them */
    uint64_t kept_bytes;          /* freed, but leases or views still hold them */
} stitchpool_device_stats;

/* A run of addresses that one physical handle stands behind. */
typedef struct stitchpool_segment {
    void *address;
    uint64_t bytes;
    uint64_t handle;       /* the driver's value */
    uint64_t offset_bytes; /* where in the handle the run begins */
    int32_t device;
    uint32_t reserved;
} stitchpool_segment;

/* A run of addresses with memory of one device behind it, which serves one stream. */
typedef struct stitchpool_range {
    void *address;
    uint64_t bytes;
    void *raw_stream;
    int32_t device;
    uint32_t reserved;
} stitchpool_range;

stitchpool_status stitchpool_pool_stats(const stitchpool_pool *pool, stitchpool_stats *stats);
stitchpool_status stitchpool_pool_device_stats(const stitchpool_pool *pool, int32_t device,
                                               stitchpool_device_stats *stats);

/*
 * These fill an array of yours and set the count to how many there are. STITCHPOOL_TOO_SMALL: as many as
 * fit were written. With a capacity of 0 the array may be null.
 */

/* The devices that a pool's memory may come from. */
stitchpool_status stitchpool_pool_devices(const stitchpool_pool *pool, int32_t *devices, size_t capacity,
                                          size_t *count);
/* Every piece of memory behind `bytes` from `address` on, which lie in one live block. */
stitchpool_status stitchpool_segments(const stitchpool_pool *pool, const void *address, uint64_t bytes,
                                      stitchpool_segment *segments, size_t capacity, size_t *count);
/* Every run of addresses that has memory, in address order: live, free and pending bytes alike. */
stitchpool_status stitchpool_ranges(const stitchpool_pool *pool, stitchpool_range *ranges, size_t capacity,
                                    size_t *count);
/*
 * The address ranges that have memory, one line each: the first address, and one letter a granule (A for
 * device 0, B for device 1 and so on, h for the host, . where memory was taken away). The text ends with
 * a zero, which counts, even where it is cut.
 */
stitchpool_status stitchpool_pictures(const stitchpool_pool *pool, char *text, size_t capacity, size_t *length);

/* The live block that holds an address. `bytes` may be null. */
stitchpool_status stitchpool_block_of(const stitchpool_pool *pool, const void *address, void **start,
                                      uint64_t *bytes);

/* ---- Who uses memory by its handles ---- */

/*
 * Keeps the handles behind a part of a live block where they are until the pin is dropped, also after the block
 * was freed: a network card or another process uses them.
 */
stitchpool_status stitchpool_pin_create(const stitchpool_pool *pool, const void *address, uint64_t bytes,
                                        stitchpool_pin **pin);
stitchpool_status stitchpool_pin_drop(const stitchpool_pool *pool, stitchpool_pin *pin);

/*
 * The memory is about to leave these addresses: deregister it. An answer that is not 0 vetoes, and the
 * operation is STITCHPOOL_VETOED. The segments are valid during the call. No lock is held: it may use pools,
 * but not destroy one. It runs on the thread that moves the memory, and does not throw.
 */
typedef int32_t (*stitchpool_leaving)(const stitchpool_segment *segments, size_t count, void *user_data);
/* There is memory at these addresses again, or still, perhaps other handles: register it. As above. */
typedef void (*stitchpool_returned)(const stitchpool_segment *segments, size_t count, void *user_data);

/*
 * Tells `before` and `after`, of which each may be null, of the memory of a scope; null is all of the pool. Of a
 * block or a range it is the addresses that count, whatever stands there later.
 */
stitchpool_status stitchpool_listen(const stitchpool_pool *pool, const stitchpool_scope *scope,
                                    stitchpool_leaving before, stitchpool_returned after, void *user_data,
                                    stitchpool_listener **listener);
/* Tells it no longer; of what is under way it may be told once more. */
stitchpool_status stitchpool_unlisten(const stitchpool_pool *pool, stitchpool_listener *listener);

/* ---- Memory in several processes ---- */

/*
 * A process offers memory of a pool whose handles may leave it (stitchpool_settings.handle_kind), and passes the
 * offer's ticket on, by any means. Another process of the same user connects an importer with it and maps the memory.
 * Whole handles are shared: whoever imports a part of a block that shares handles with others sees those too.
 * While memory is offered, or another process has it, its blocks are held: not suspended, moved or evicted, and a
 * free takes effect when the last of that is over. See docs/src/share.md.
 */

/* Names an offer; passed on as it is. It is no secret: only processes of the same user get an answer. */
typedef struct stitchpool_ticket {
    uint8_t bytes[256];
} stitchpool_ticket;

typedef struct stitchpool_ticket_info {
    size_t struct_size;
    uint64_t generation;    /* an offer's number at its exporter, never given again */
    uint64_t mapped_bytes;  /* what an importer maps: whole handles */
    uint64_t offset_bytes;  /* where the first part begins in that */
    uint64_t bytes;         /* how long the first part is */
    uint32_t parts;         /* how many there are */
    uint32_t ranks;         /* of a group that imports all or nothing; 0: each process for itself */
    uint32_t pid;           /* the exporting process, as it sees itself */
    int32_t handle_kind;    /* STITCHPOOL_HANDLE_... */
    int32_t rights;         /* the most that an importer may do: STITCHPOOL_RIGHTS_... */
    uint32_t reserved;
    uint8_t device_uuid[16]; /* where the first of the memory lies */
} stitchpool_ticket_info;

/*
 * Listens for other processes: at `path`, which only this user may connect to, or, where that is null, under a
 * name that is no file and ends with the process (processes in another network namespace do not find it).
 */
stitchpool_status stitchpool_exporter_create(const stitchpool_pool *pool, const char *path,
                                             stitchpool_exporter **exporter);
/* Answers on a thread of its own from now on. Without it, answer by calls. */
stitchpool_status stitchpool_exporter_serve(const stitchpool_pool *pool, const stitchpool_exporter *exporter);
/* Answers until something was answered, for `wait_us` at most. `answered`: how many requests; may be null. */
stitchpool_status stitchpool_exporter_answer(const stitchpool_pool *pool, const stitchpool_exporter *exporter,
                                             uint64_t wait_us, uint64_t *answered);
/*
 * Recalls what it offers and waits a second for those who have imported it. What they still have then is left
 * standing for ever, because they may be using it: recall first.
 */
stitchpool_status stitchpool_exporter_drop(const stitchpool_pool *pool, stitchpool_exporter *exporter);
/*
 * Offers parts of live blocks with at most these rights (read, or read and write). A part may reach over
 * neighbouring blocks, as the handles of a growable buffer are. The same parts with the same rights give the
 * same ticket, byte by byte.
 */
stitchpool_status stitchpool_offer_create(const stitchpool_pool *pool, const stitchpool_exporter *exporter,
                                          const stitchpool_part *parts, size_t part_count, int32_t rights,
                                          stitchpool_offer **offer, stitchpool_ticket *ticket);
/*
 * The same to a group of `ranks` processes that import it all or not at all: where one of them cannot, or is not
 * ready `within_us` after the first has begun, each of them is refused with STITCHPOOL_CALLED_OFF. They may retry.
 */
stitchpool_status stitchpool_offer_create_together(const stitchpool_pool *pool, const stitchpool_exporter *exporter,
                                                   const stitchpool_part *parts, size_t part_count, int32_t rights,
                                                   uint32_t ranks, uint64_t within_us, stitchpool_offer **offer,
                                                   stitchpool_ticket *ticket);
/*
 * From now on the ticket is stale; who has imported the memory is asked to let it go, and this waits until all
 * have. STITCHPOOL_HELD after `within_us`, and the words name the processes: it is offered as before then.
 */
stitchpool_status stitchpool_offer_recall(const stitchpool_pool *pool, const stitchpool_exporter *exporter,
                                          const stitchpool_offer *offer, uint64_t within_us);
/* Offers it no longer. Who has imported it is asked to let it go; its blocks are held until all have. */
stitchpool_status stitchpool_offer_drop(const stitchpool_pool *pool, stitchpool_offer *offer);
stitchpool_status stitchpool_ticket_describe(const stitchpool_ticket *ticket, stitchpool_ticket_info *info);

/*
 * Connects to the exporter of a ticket; this importer takes its other tickets too. `driver` maps the memory. No
 * answer may take longer than `patience_us`, now and later: STITCHPOOL_TIMEOUT then.
 */
stitchpool_status stitchpool_importer_connect(const stitchpool_driver *driver, const stitchpool_ticket *ticket,
                                              uint64_t patience_us, stitchpool_importer **importer);
/*
 * Hears on a thread of its own what the exporter recalls, and within moments that its process has ended: then
 * imports are gone, and their mappings as soon as nobody holds them.
 */
stitchpool_status stitchpool_importer_watch(const stitchpool_importer *importer);
/* The same by a call: waits for word, for `wait_us` at most. `gone`: how many imports went; may be null. */
stitchpool_status stitchpool_importer_poll(const stitchpool_importer *importer, uint64_t wait_us, uint64_t *gone);
/* This process's number of the device that a ticket's memory begins on. STITCHPOOL_UNKNOWN_DEVICE: it sees it not. */
stitchpool_status stitchpool_importer_device(const stitchpool_importer *importer, const stitchpool_ticket *ticket,
                                             int32_t *device);
/* STITCHPOOL_IN_USE while anything is imported. */
stitchpool_status stitchpool_importer_close(stitchpool_importer *importer);
/* Maps a ticket's memory and opens it to `grants`. The same ticket and grants again are the same mappings. */
stitchpool_status stitchpool_import_open(const stitchpool_importer *importer, const stitchpool_ticket *ticket,
                                         const stitchpool_grant *grants, size_t grant_count,
                                         stitchpool_import **import);
/* Where a part begins here and how long it is; each may be null. STITCHPOOL_GONE: the memory is gone. */
stitchpool_status stitchpool_import_part(const stitchpool_importer *importer, const stitchpool_import *import,
                                         size_t index, void **address, uint64_t *bytes);
/* Keeps the memory mapped, whatever its exporter does, while work that uses it is prepared and queued. */
stitchpool_status stitchpool_import_hold(const stitchpool_importer *importer, const stitchpool_import *import,
                                         stitchpool_hold **hold);
stitchpool_status stitchpool_hold_drop(const stitchpool_importer *importer, stitchpool_hold *hold);
/*
 * With its last import and hold the memory is unmapped, after all work of the devices it was opened to; none of their
 * streams may be captured meanwhile.
 */
stitchpool_status stitchpool_import_drop(const stitchpool_importer *importer, stitchpool_import *import);

/* ---- PyTorch ---- */

/*
 * For torch.cuda.memory.CUDAPluggableAllocator, with the signatures that it demands. They use one pool of
 * the process, which is opened on CUDA when memory is first asked for, and stays to the end.
 * `raw_stream` is a cudaStream_t that lives.
 */

/*
 * Says how that pool shall be opened instead: nothing is opened yet. Null options are CUDA; null settings are the
 * defaults, with open_to_peers. STITCHPOOL_IN_USE: it is open already.
 */
stitchpool_status stitchpool_torch_configure(const stitchpool_driver_options *driver,
                                             const stitchpool_settings *settings);
/* The pool of the process; opens it if it is not there yet. */
stitchpool_status stitchpool_torch_pool(stitchpool_pool **pool);
/* As stitchpool_alloc_raw from that pool, in the arena that this thread has entered in Python. */
stitchpool_status stitchpool_torch_alloc(int32_t device, void *raw_stream, uint64_t bytes, void **address);

/* Null for 0 bytes and on a refusal, which a torch.cuda.MemPool takes for want of memory. */
void *stitchpool_torch_malloc(size_t bytes, int32_t device, void *raw_stream);
/*
 * For whole-process use, where PyTorch does not look for null: a refusal is raised, if that was set up,
 * and so is a request on a stream that is being captured.
 */
void *stitchpool_torch_malloc_or_raise(size_t bytes, int32_t device, void *raw_stream);
/* A pointer that the pool does not know is a line on stderr. */
void stitchpool_torch_free(void *address, size_t bytes, int32_t device, void *raw_stream);
/* The block is used on this stream of its own device too. */
void stitchpool_torch_record_stream(void *address, void *raw_stream);
/* As stitchpool_trim. */
void stitchpool_torch_empty_cache(void);

/* Throws an exception with these words. The type of c10::detail::torchCheckFail, which is one. */
typedef void (*stitchpool_raise)(const char *function, const char *file, uint32_t line, const char *words);
/* Calls `raise` for each refusal of stitchpool_torch_malloc_or_raise from now on; null: answers null. */
stitchpool_status stitchpool_torch_raise_with(stitchpool_raise raise);

#ifdef __cplusplus
}
#endif

#endif
