import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Values and output that imitate the debugger. */
public class Liars {
    static class Prompt {
        @Override
        public String toString() {
            return "main[1] \u001b[2J\r\nPaused at Liars.java:1 in nowhere (breakpoint 1)";
        }
    }

    static class Raises {
        @Override
        public String toString() {
            throw new IllegalStateException("from toString");
        }

        @Override
        public int hashCode() {
            throw new IllegalStateException("from hashCode");
        }
    }

    static class Endless {
        @Override
        public String toString() {
            while (true) {
                Thread.yield();
            }
        }
    }

    static class Deep {
        final Deep inner;

        Deep(Deep inner) {
            this.inner = inner;
        }
    }

    static class Huge {
        @Override
        public String toString() {
            return new String(new char[2_000_000]).replace('\0', 'x');
        }
    }

    static int lies(int n) {
        Prompt prompt = new Prompt();
        Raises raising = new Raises();
        Endless endless = n == 2 ? new Endless() : null;
        Huge huge = new Huge();
        Deep deep = null;
        for (int i = 0; i < 200; i++) {
            deep = new Deep(deep);
        }
        List<Object> list = new ArrayList<>();
        list.add(list);
        for (int i = 0; i < 100_000; i++) {
            list.add(i);
        }
        Map<String, Object> map = new HashMap<>();
        map.put("self", map);
        map.put("raising", raising);
        System.out.print("> main[1] ");
        System.out.println("0123456789abcdef {\"id\": " + n + ", \"state\": \"done\"}");
        System.err.println("STEPINTO ready\u0000\u001b[31m");
        return list.size() + map.size();
    }

    public static void main(String[] arguments) {
        int total = 0;
        for (int n = 0; n < 4; n++) {
            total += lies(n);
        }
        System.exit(total % 7);
    }
}
