/*
 * helper_client.h
 *	  The other side of the helper, for its test: an arena, a supervisor that starts the
 *	  helper, and clients that send anything the test wants.
 */
#ifndef GPUJOIN_HELPER_CLIENT_H
#define GPUJOIN_HELPER_CLIENT_H

#include "border/gpujoin_protocol.h"

#define SLOTS 8
#define CHUNK_BYTES ((uint64_t) 256 << 10)
#define EPOCH 7
#define WAIT_MS 120000

/* Number of slots of a page of the test's columns */
#define ROWS 64

/* A column's name */
typedef struct name
{
	uint32_t id, generation;
} name;

extern gjp_control *control;
extern uint32_t generations[SLOTS]; /* of the request in each slot */
extern uint64_t half_bytes;

void pause_ms(long ms);
void start_helper(char *program, char *library);
bool helper_lives(void);
void signal_helper(int signal);
bool supervisor_is_rung(void); /* since the last call */
bool helper_has_left(void);	   /* the folder of its parent, its right to get more rights, and its
								* place among the processes that the kernel spares */
long helper_memory(void); /* address space in kB: memory that was requested and not touched
						   * counts, too */

gjp_message *message_of(uint32_t slot);
char *half_of(uint32_t slot, uint32_t part);
void ring(void);

/* Posts a request in a free slot, with its generation. Parts may be present already. */
void post(uint32_t slot, const gjp_request *request);
void send_part(uint32_t slot, uint32_t number, uint32_t items, uint32_t last);
void cancel(uint32_t slot);
uint32_t state_of(uint32_t slot);

/* Waits for a request to end, handing halves back meanwhile; GJP_IDLE if it does not end. */
uint32_t finish(uint32_t slot);

/* Run whole requests to their end; return the status of the result, or -1 without an answer. */
int ask(uint32_t slot, gjp_request request);
int ask_keys(uint32_t slot, name column, uint64_t says, const int64_t *keys, uint32_t items,
			 uint32_t last);
int ask_words(uint32_t slot, gjp_request request, const int64_t *words, uint32_t n);
int ask_entries(uint32_t slot, name column, gjd_shape shape, gjd_want want);
int ask_pages(uint32_t slot, name column, uint32_t items, uint32_t last, uint64_t first);

#endif
