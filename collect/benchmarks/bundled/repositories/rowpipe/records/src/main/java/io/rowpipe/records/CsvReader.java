package io.rowpipe.records;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;

/** Reads rows one at a time, however long the file is. The first line names the columns. */
public final class CsvReader extends Lookahead<Row> {

    private final BufferedReader reader;
    private final Schema schema;
    private final String[] values;
    private int line;

    public CsvReader(Reader source) {
        reader = new BufferedReader(source);
        String header = readLine();
        if (header == null) {
            throw new CsvFormatException(1, "the header is missing");
        }
        schema = new Schema(header.split(","));
        values = new String[schema.size()];
    }

    public Schema schema() {
        return schema;
    }

    @Override
    protected Row fetch() {
        String text = readLine();
        while (text != null && text.trim().isEmpty()) {
            text = readLine();
        }
        if (text == null) {
            return null;
        }
        split(text);
        return new Row(schema, values.clone());
    }

    private void split(String text) {
        int start = 0;
        for (int column = 0; column < values.length; column++) {
            int end = text.indexOf(',', start);
            boolean last = column == values.length - 1;
            if (last != (end < 0)) {
                throw new CsvFormatException(line, values.length + " columns are expected");
            }
            values[column] = text.substring(start, last ? text.length() : end).trim();
            start = end + 1;
        }
    }

    private String readLine() {
        line++;
        try {
            return reader.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
