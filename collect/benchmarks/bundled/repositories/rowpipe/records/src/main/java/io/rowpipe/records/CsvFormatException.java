package io.rowpipe.records;

/** A line is not what the header promises. */
public final class CsvFormatException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    CsvFormatException(int line, String problem) {
        super("line " + line + ": " + problem);
    }
}
