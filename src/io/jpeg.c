/* jpeg.c - JPEG through libjpeg-turbo. ISO/IEC 10918-1 (ITU-T T.81). */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <jpeglib.h> /* wants size_t and FILE */

#include <jerror.h>

#include "io/decode_format.h"

enum { MAX_SCANS = 500 }; /* each may go through the whole picture */

struct jpeg_source {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    struct decode *d;
    JSAMPLE *row;  /* of four channels, in the library's memory */
    bool cut;      /* the file ended before the picture's end marker */
    unsigned seen; /* components that a scan was for, as bits */
    enum status status;
};

/* --- what the library calls ---------------------------------------------------------------------
 */

static enum status jpeg_refuse(struct jpeg_source *s, const char *text, const char *hint)
{
    return error_set(s->d->err, ERR_INPUT, "%s: JPEG cannot be decoded: %s (%s)", s->d->where, text,
                     hint);
}

static void jpeg_fail(j_common_ptr library)
{
    struct jpeg_source *s = library->client_data;
    int code = s->errors.msg_code;
    char text[JMSG_LENGTH_MAX];
    s->errors.format_message(library, text);
    bool unsupported = code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED ||
                       code == JERR_ARITH_NOTIMPL || code == JERR_CONVERSION_NOTIMPL ||
                       code == JERR_NOT_COMPILED || code == JERR_FRACT_SAMPLE_NOTIMPL ||
                       code == JERR_CCIR601_NOTIMPL;
    if (code == JERR_OUT_OF_MEMORY)
        s->status = error_memory(s->d->err, s->d->size);
    else
        s->status = jpeg_refuse(s, text,
                                unsupported ? "this kind of JPEG is not supported"
                                            : "the file is damaged, cut off or not supported");
    longjmp(s->failed, 1);
}

/* Some encoders leave out the last bits of a progressive scan: what follows it is sound. */
static bool jpeg_lacks_last_bits(const struct jpeg_source *s)
{
    const struct jpeg_decompress_struct *c = &s->library;
    return c->progressive_mode && !s->cut && c->input_iMCU_row + 1 == c->total_iMCU_rows;
}

/* Warnings that pixels may depend on end the decoding; the library itself would go on and make
 * some up. That the file ends is told apart: its end marker alone may be missing. */
static void jpeg_message(j_common_ptr library, int level)
{
    struct jpeg_source *s = library->client_data;
    char text[JMSG_LENGTH_MAX];
    if (level >= 0)
        return; /* a trace, no warning */
    s->errors.num_warnings++;
    s->errors.format_message(library, text);
    bool harmless = true;
    switch (s->errors.msg_code) {
    case JWRN_JPEG_EOF:
        s->cut = true;
        break;
    case JWRN_HIT_MARKER:
        harmless = jpeg_lacks_last_bits(s);
        break;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
        harmless = false;
        break;
    }
    if (harmless) {
        decode_warn(s->d, text);
        return;
    }
    s->status = jpeg_refuse(s, text, s->cut ? "the file is cut off" : "the file is damaged");
    longjmp(s->failed, 1);
}

/* Called within every scan. */
static void jpeg_watch(j_common_ptr library)
{
    struct jpeg_source *s = library->client_data;
    for (int i = 0; i < s->library.comps_in_scan; i++)
        s->seen |= 1u << s->library.cur_comp_info[i]->component_index;
    if (s->library.input_scan_number > MAX_SCANS) {
        s->status = jpeg_refuse(s, "has more than 500 scans", "the file is damaged");
        longjmp(s->failed, 1);
    }
}

/* --- the steps ----------------------------------------------------------------------------------
 */

/* The orientation of the first EXIF segment. */
static int jpeg_orientation(const struct jpeg_decompress_struct *c)
{
    static const uint8_t start[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = c->marker_list; m; m = m->next)
        if (m->data_length >= sizeof start && memcmp(m->data, start, sizeof start) == 0)
            return exif_orientation(m->data + sizeof start, m->data_length - sizeof start);
    return 1;
}

/* A Huffman code has at least one bit, a block of 8 x 8 pixels of the component that is stored in
 * full at least one code (two where a scan holds all frequencies). Arithmetic codes have no such
 * bound. */
static double jpeg_most_pixels(const struct jpeg_source *s)
{
    if (s->library.arith_code)
        return s->d->options->max_pixels;
    int codes = s->library.progressive_mode ? 1 : 2;
    return (double)s->d->size * 8 / codes * DCTSIZE2 + DCTSIZE2;
}

/* The smallest scale of the DCT that leaves at least the size that is asked for. */
static unsigned jpeg_denominator(const struct jpeg_source *s)
{
    const struct decode_options *o = s->d->options;
    bool turned = s->d->orientation >= 5;
    unsigned least_width = (unsigned)(turned ? o->least_height : o->least_width);
    unsigned least_height = (unsigned)(turned ? o->least_width : o->least_height);
    if (!least_width || !least_height)
        return 1;
    unsigned n = 8;
    while (n > 1 && (s->library.image_width / n < least_width ||
                     s->library.image_height / n < least_height))
        n /= 2;
    return n;
}

static enum status jpeg_begin(struct jpeg_source *s)
{
    struct jpeg_decompress_struct *c = &s->library;
    struct decode *d = s->d;
    jpeg_mem_src(c, d->bytes, (unsigned long)d->size);
    if (d->options->exif)
        jpeg_save_markers(c, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(c, TRUE);
    enum status status =
        decode_check_size(d, c->image_width, c->image_height, jpeg_most_pixels(s));
    if (status)
        return status;
    d->facts->width = (int)c->image_width;
    d->facts->height = (int)c->image_height;
    d->orientation = jpeg_orientation(c);

    bool four = c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK;
    c->out_color_space = four ? JCS_CMYK : JCS_RGB;
    c->scale_denom = jpeg_denominator(s);
    jpeg_start_decompress(c);
    if (four)
        s->row = c->mem->alloc_large((j_common_ptr)c, JPOOL_IMAGE, 4 * (size_t)c->output_width);
    return image_room(d->out, (int)c->output_width, (int)c->output_height, d->err);
}

/* Pixels of cyan, magenta, yellow and black, stored as 255 minus the ink, with the rounding of
 * Pillow's conversion. */
static void rgb_from_cmyk(uint8_t *rgb, const JSAMPLE *cmyk, int count)
{
    for (int x = 0; x < count; x++, rgb += 3, cmyk += 4) {
        unsigned paper = cmyk[3];
        for (int c = 0; c < 3; c++) {
            unsigned ink = (255 - cmyk[c]) * paper + 128;
            rgb[c] = (uint8_t)(paper - (((ink >> 8) + ink) >> 8));
        }
    }
}

/* Every component has come, and of a progressive file that lacks its end every bit of every
 * coefficient. */
static bool jpeg_is_whole(const struct jpeg_source *s)
{
    if (s->seen != (1u << s->library.num_components) - 1)
        return false;
    if (!s->cut || !s->library.progressive_mode)
        return true;
    for (int c = 0; c < s->library.num_components; c++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (s->library.coef_bits[c][k] != 0)
                return false;
    return true;
}

/* The only function that the library's errors return to. */
static void jpeg_run(struct jpeg_source *s)
{
    if (setjmp(s->failed))
        return;
    jpeg_create_decompress(&s->library);
    s->library.progress = &s->progress;
    s->status = jpeg_begin(s);
    if (s->status)
        return;
    while (s->library.output_scanline < s->library.output_height) {
        size_t at = 3 * (size_t)s->library.output_width * s->library.output_scanline;
        uint8_t *rgb = s->d->out->rgb + at;
        JSAMPROW row = s->row ? s->row : rgb;
        jpeg_read_scanlines(&s->library, &row, 1);
        if (s->row)
            rgb_from_cmyk(rgb, s->row, (int)s->library.output_width);
    }
    if (!jpeg_is_whole(s))
        s->status = jpeg_refuse(s, "scans are missing", "the file is cut off");
    /* What follows the last row, the end marker at best, is not read. */
}

enum status jpeg_decode(struct decode *d)
{
    struct jpeg_source s = {.d = d};
    s.library.err = jpeg_std_error(&s.errors);
    s.library.client_data = &s;
    s.errors.error_exit = jpeg_fail;
    s.errors.emit_message = jpeg_message;
    s.progress.progress_monitor = jpeg_watch;
    jpeg_run(&s);
    jpeg_destroy_decompress(&s.library);
    return s.status;
}
